/* SQLite's file layer with a fault: the n-th change to a file fails, as on a full or broken
 * disk. */
#pragma once

/* Registers the VFS "failing"; once. */
void failing_vfs_register(void);
/* The `nth` write, sync or truncation from now (from 1) fails with `code`, and `times` - 1
 * after it. 0: none fails. */
void failing_vfs_arm(int nth, int times, int code);
/* How many failed since it was armed. */
int failing_vfs_failed(void);
