/* See address.h. Who holds a port is found as `ss -ltnp` finds it: the listening socket's inode in
 * /proc/net/tcp, then whose descriptor it is. Other users' processes stay nameless. */
#include "runtime/address.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/log.h"

bool address_parse(const char *address, char host[ADDRESS_HOST_SIZE], int *ret_port)
{
	const char *colon = strrchr(address, ':'), *start = address, *end = colon;
	char *port_end;
	long port;

	if (!colon || !colon[1] || colon[1] == '-' || colon[1] == '+' || colon[1] == ' ')
		return false;
	port = strtol(colon + 1, &port_end, 10);
	if (*port_end || port > 65535)
		return false;
	if (*start == '[') {
		if (end == start || end[-1] != ']')
			return false;
		start++;
		end--;
	} else if (memchr(start, ':', (size_t)(end - start))) {
		return false; /* IPv6 without brackets */
	}
	if (end <= start || end - start >= ADDRESS_HOST_SIZE)
		return false;
	memcpy(host, start, (size_t)(end - start));
	host[end - start] = 0;
	*ret_port = (int)port;
	return true;
}

/* --- who holds a port --------------------------------------------------------------------------
 */

static unsigned long listening_inode(const char *table, int port)
{
	FILE *file = fopen(table, "re");
	unsigned long inode = 0, found;
	unsigned local, state;
	char line[512];

	while (file && !inode && fgets(line, sizeof(line), file))
		if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*s %lu", &local,
			   &state, &found) == 3 &&
		    local == (unsigned)port && state == 10)
			inode = found;
	if (file)
		fclose(file);
	return inode;
}

static bool process_has_socket(const char *pid, unsigned long inode)
{
	char path[300], wanted[40], target[64];
	struct dirent *entry;
	bool found = false;
	ssize_t size;
	DIR *folder;

	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	folder = opendir(path);
	while (folder && !found && (entry = readdir(folder))) {
		size = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
		target[size > 0 ? size : 0] = 0;
		found = !strcmp(target, wanted);
	}
	if (folder)
		closedir(folder);
	return found;
}

static void port_holder(int port, char *holder, size_t size)
{
	unsigned long inode = listening_inode("/proc/net/tcp", port);
	char path[300], name[64] = "?";
	struct dirent *entry;
	DIR *processes;
	FILE *file;

	snprintf(holder, size, "another process");
	if (!inode)
		inode = listening_inode("/proc/net/tcp6", port);
	processes = inode ? opendir("/proc") : NULL;
	while (processes && (entry = readdir(processes))) {
		if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name) ||
		    !process_has_socket(entry->d_name, inode))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (file && fgets(name, sizeof(name), file))
			name[strcspn(name, "\n")] = 0;
		if (file)
			fclose(file);
		snprintf(holder, size, "%s (pid %s)", name, entry->d_name);
		break;
	}
	if (processes)
		closedir(processes);
}

/* --- why ---------------------------------------------------------------------------------------
 */

/* The errno of binding and listening there, 0 if it works now. */
static int try_address(const char *host, int port, const char **reterr_resolve)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
	char service[8];
	int error = 0, code, fd;

	snprintf(service, sizeof(service), "%d", port);
	code = getaddrinfo(host, service, &hints, &found);
	if (code) {
		*reterr_resolve = gai_strerror(code);
		return EADDRNOTAVAIL;
	}
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, 1))
		error = errno;
	if (fd >= 0)
		close(fd);
	freeaddrinfo(found);
	return error;
}

bool address_free(const char *address)
{
	char host[ADDRESS_HOST_SIZE], holder[128];
	const char *reason = NULL;
	int port, error;

	if (!address_parse(address, host, &port)) {
		log_event(LOG_ERROR, "listen_failed", log_text("address", address),
			  log_text("reason", "not of the form host:port"));
		return false;
	}
	error = try_address(host, port, &reason);
	if (!error)
		return true;
	if (error == EADDRINUSE) {
		port_holder(port, holder, sizeof(holder));
		log_event(LOG_ERROR, "address_in_use", log_text("address", address),
			  log_text("held_by", holder));
		return false;
	}
	log_event(LOG_ERROR, "listen_failed", log_text("address", address),
		  log_text("reason", reason ? reason : strerror(error)));
	return false;
}
