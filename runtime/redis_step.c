/* Redis as a step of a call: redis_script() and redis_command(). */
#include "runtime/redis.h"

struct redis_step {
	struct wait wait;
	struct redis_op op;
	redis_decode *decode;
};

static void step_done(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct redis_step *step = container_of(op, struct redis_step, op);

	if (status == STATUS_OK && step->decode)
		status = step->decode(step->wait.call, reply);
	wait_finish(&step->wait, status);
}

/* The call goes on without the reply; its arena, and so the step, may go at any time. */
static void step_abandon(struct wait *wait)
{
	redis_forget(&container_of(wait, struct redis_step, wait)->op);
}

static struct redis_step *step_create(struct call *call, redis_decode *decode)
{
	struct redis_step *step = arena_zalloc(call_arena(call), sizeof(*step));

	step->op.done = step_done;
	step->decode = decode;
	return step;
}

enum step redis_script(struct redis *redis, struct call *call, struct redis_script *script,
		       int keys, struct redis_args args, redis_decode *decode, call_then *then)
{
	struct redis_step *step = step_create(call, decode);

	redis_send_script(redis, &step->op, script, keys, args);
	return call_await(call, &step->wait, step_abandon, then);
}

enum step redis_command(struct redis *redis, struct call *call, struct redis_args args,
			redis_decode *decode, call_then *then)
{
	struct redis_step *step = step_create(call, decode);

	redis_send(redis, &step->op, args);
	return call_await(call, &step->wait, step_abandon, then);
}
