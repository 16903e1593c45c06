/* See failing_vfs.h. Files are those of the system's VFS, wrapped. Used from the store's
 * threads, hence the atomics. */
#include "failing_vfs.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stddef.h>

struct failing_file {
	sqlite3_file base;
	sqlite3_file *real; /* behind this struct */
};

static sqlite3_vfs failing;
static sqlite3_vfs *system_vfs;
static atomic_int left, times_left, code_given, failed;

static int change(void)
{
	int before = atomic_load(&left);

	if (before == 0)
		return SQLITE_OK;
	if (before > 1) {
		atomic_fetch_sub(&left, 1);
		return SQLITE_OK;
	}
	if (atomic_fetch_sub(&times_left, 1) == 1)
		atomic_store(&left, 0);
	atomic_fetch_add(&failed, 1);
	return atomic_load(&code_given);
}

static sqlite3_file *real(sqlite3_file *file)
{
	return ((struct failing_file *)file)->real;
}

#define REAL(file, method, ...) real(file)->pMethods->method(real(file), ##__VA_ARGS__)

static int file_close(sqlite3_file *file)
{
	return REAL(file, xClose);
}

static int file_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
	return REAL(file, xRead, to, size, at);
}

static int file_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
	int code = change();

	return code ? code : REAL(file, xWrite, from, size, at);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	int code = change();

	return code ? code : REAL(file, xTruncate, size);
}

static int file_sync(sqlite3_file *file, int flags)
{
	int code = change();

	return code ? code : REAL(file, xSync, flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
	return REAL(file, xFileSize, ret_size);
}

static int file_lock(sqlite3_file *file, int level)
{
	return REAL(file, xLock, level);
}

static int file_unlock(sqlite3_file *file, int level)
{
	return REAL(file, xUnlock, level);
}

static int file_check_lock(sqlite3_file *file, int *ret_reserved)
{
	return REAL(file, xCheckReservedLock, ret_reserved);
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
	return REAL(file, xFileControl, op, arg);
}

static int file_sector(sqlite3_file *file)
{
	return REAL(file, xSectorSize);
}

static int file_device(sqlite3_file *file)
{
	return REAL(file, xDeviceCharacteristics);
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
	return REAL(file, xShmMap, page, size, extend, ret);
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
	return REAL(file, xShmLock, offset, count, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
	REAL(file, xShmBarrier);
}

static int file_shm_unmap(sqlite3_file *file, int remove)
{
	return REAL(file, xShmUnmap, remove);
}

static const sqlite3_io_methods methods = {
	.iVersion = 2,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_check_lock,
	.xFileControl = file_control,
	.xSectorSize = file_sector,
	.xDeviceCharacteristics = file_device,
	.xShmMap = file_shm_map,
	.xShmLock = file_shm_lock,
	.xShmBarrier = file_shm_barrier,
	.xShmUnmap = file_shm_unmap,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *opened, int flags,
		    int *ret_flags)
{
	struct failing_file *file = (struct failing_file *)opened;
	int code;

	(void)vfs;
	file->base.pMethods = NULL;
	file->real = (sqlite3_file *)(file + 1);
	code = system_vfs->xOpen(system_vfs, name, file->real, flags, ret_flags);
	if (code == SQLITE_OK)
		file->base.pMethods = &methods;
	return code;
}

void failing_vfs_register(void)
{
	if (system_vfs)
		return;
	system_vfs = sqlite3_vfs_find(NULL);
	failing = *system_vfs;
	failing.zName = "failing";
	failing.pNext = NULL;
	failing.szOsFile += (int)sizeof(struct failing_file);
	failing.xOpen = vfs_open;
	sqlite3_vfs_register(&failing, 0);
}

void failing_vfs_arm(int nth, int times, int code)
{
	atomic_store(&failed, 0);
	atomic_store(&code_given, code);
	atomic_store(&times_left, times);
	atomic_store(&left, nth);
}

int failing_vfs_failed(void)
{
	return atomic_load(&failed);
}
