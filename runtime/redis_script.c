/* Scripts: EVALSHA, with the source sent where it is not known.
 *
 * On each connection a script's first use is preceded by SCRIPT LOAD, so that order is kept and the
 * usual case has no NOSCRIPT. When somebody flushes the server's scripts, NOSCRIPT is answered by
 * EVAL with the same arguments, and a WAIT that stood behind the script is asked again.
 */
#include <assert.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <string.h>

#include "runtime/log.h"
#include "runtime/redis_internal.h"

static void script_name_sha(struct redis_script *script)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char sha[SHA_DIGEST_LENGTH];

	SHA1((const unsigned char *)script->source, strlen(script->source), sha);
	for (size_t i = 0; i < sizeof(sha); i++) {
		script->sha[2 * i] = digits[sha[i] >> 4];
		script->sha[2 * i + 1] = digits[sha[i] & 15];
	}
	script->sha[40] = 0;
}

void redis_scripts_forget(struct redis *redis)
{
	memset(redis->loaded, 0, sizeof(redis->loaded));
	redis->loaded_count = 0;
}

static void script_load(struct redis *redis, const struct redis_script *script)
{
	const char *values[] = {"SCRIPT", "LOAD", script->source};
	size_t sizes[] = {6, 4, strlen(script->source)};

	redis_dispatch_silently(redis, (struct redis_args){3, values, sizes});
}

/* A small table by address, open addressing. */
static void script_ensure(struct redis *redis, struct redis_script *script)
{
	size_t slot = ((uintptr_t)script >> 4) % REDIS_SCRIPTS_MAX;

	while (redis->loaded[slot] && redis->loaded[slot] != script)
		slot = (slot + 1) % REDIS_SCRIPTS_MAX;
	if (redis->loaded[slot])
		return;
	/* More scripts than anybody has: load them again rather than grow. */
	if (++redis->loaded_count > REDIS_SCRIPTS_MAX / 2) {
		redis_scripts_forget(redis);
		redis->loaded_count = 1;
	}
	redis->loaded[slot] = script;
	script_load(redis, script);
}

void redis_send_script(struct redis *redis, struct redis_op *op, struct redis_script *script,
		       int keys, struct redis_args args)
{
	struct redis_op_internal *internal = redis_begin(redis, op);

	if (!internal)
		return;
	if (!*script->sha)
		script_name_sha(script);
	script_ensure(redis, script);
	internal->kind = REDIS_SCRIPT;
	internal->script = script;
	redis_write_evalsha(&internal->command, script->sha, keys, args);
	redis_dispatch(internal, &internal->command);
}

bool redis_script_reload(struct redis_op_internal *internal)
{
	struct redis *redis = internal->redis;

	log_event(LOG_INFO, "redis_script_reloaded", log_text("role", redis->role),
		  log_text("script", internal->script->name));
	redis_write_eval(&redis->buffer, internal->script->source, &internal->command);
	internal->kind = REDIS_PLAIN; /* once is enough */
	if (!redis_dispatch_again(internal, &redis->buffer))
		return false;
	redis->reloaded = redis->sequence;
	return true;
}
