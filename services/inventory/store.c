/* See store.h. Scripts are in lua/; sale.lua stands before each of them. */
#include "inventory/store.h"

#include <assert.h>
#include <embed/inventory.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX (3 * STORE_SETTLE_MAX + 8)
_Static_assert(2 * STORE_FIELDS_MAX + 8 <= ARGS_MAX, "fields fit too");
#define SALE_FIELDS 17 /* what sale_read() returns */

struct store {
	struct redis *redis;
	struct redis_script get_sale, create_sale, update_sale, adjust_stock, settle,
		get_reservation;
};

static struct redis_script script(const char *name, const unsigned char *source)
{
	struct redis_script script = {.name = name};
	char *whole;
	int length =
		asprintf(&whole, "%s%s", (const char *)inventory_sale_lua, (const char *)source);

	assert(length > 0);
	script.source = whole;
	return script;
}

struct store *store_create(struct redis *redis)
{
	struct store *store = calloc(1, sizeof(*store));

	assert(store);
	store->redis = redis;
	store->get_sale = script("get_sale", inventory_get_sale_lua);
	store->create_sale = script("create_sale", inventory_create_sale_lua);
	store->update_sale = script("update_sale", inventory_update_sale_lua);
	store->adjust_stock = script("adjust_stock", inventory_adjust_stock_lua);
	store->settle = script("settle", inventory_settle_lua);
	store->get_reservation = script("get_reservation", inventory_get_reservation_lua);
	return store;
}

void store_destroy(struct store *store)
{
	if (!store)
		return;
	free((char *)store->get_sale.source);
	free((char *)store->create_sale.source);
	free((char *)store->update_sale.source);
	free((char *)store->adjust_stock.source);
	free((char *)store->settle.source);
	free((char *)store->get_reservation.source);
	free(store);
}

size_t store_key(char key[STORE_KEY_SIZE], const char *sale_id, const char *suffix)
{
	int length = snprintf(key, STORE_KEY_SIZE, "{sale:%s.0}%s", sale_id, suffix);

	assert(length > 0 && length < STORE_KEY_SIZE);
	return (size_t)length;
}

/* --- arguments ---------------------------------------------------------------------------------- */

struct args {
	const char *values[ARGS_MAX];
	size_t sizes[ARGS_MAX];
	int count;
};

static void put(struct args *args, const char *value)
{
	assert(args->count < ARGS_MAX);
	args->values[args->count] = value;
	args->sizes[args->count++] = strlen(value);
}

static void put_fields(struct args *args, const struct store_field *fields, int count)
{
	for (int i = 0; i < count; i++) {
		put(args, fields[i].name);
		put(args, fields[i].value);
	}
}

static struct redis_args as_redis(const struct args *args)
{
	return (struct redis_args){args->count, args->values, args->sizes};
}

/* --- sales -------------------------------------------------------------------------------------- */

static int64_t number(const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_INTEGER)
		return reply->integer;
	return reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;
}

static const char *text(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STRING ? reply->str : "";
}

enum status store_decode_sale(const redisReply *reply, struct sale *ret_sale)
{
	redisReply **at;

	if (reply->type == REDIS_REPLY_NIL)
		return STATUS_NOT_FOUND;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != SALE_FIELDS)
		return STATUS_INTERNAL;
	at = reply->element;
	*ret_sale = (struct sale){
		.now_ms = number(at[0]),
		.status = (int)number(at[1]),
		.total = number(at[2]),
		.available = number(at[3]),
		.reserved = number(at[4]),
		.sold = number(at[5]),
		.limit = number(at[6]),
		.starts_ms = number(at[7]),
		.ends_ms = number(at[8]),
		.price = number(at[9]),
		.currency = text(at[10]),
		.pay_ms = number(at[11]),
		.durability = (int)number(at[12]),
		.replicas = (int)number(at[13]),
		.etag = text(at[14]),
		.created_ms = number(at[15]),
		.title = text(at[16]),
	};
	return STATUS_OK;
}

static enum status decode_into_frame(struct call *call, const redisReply *reply)
{
	struct sale_frame *frame = call_frame(call);
	struct arena *arena = call_arena(call);
	struct sale sale;
	enum status status = store_decode_sale(reply, &sale);

	if (status != STATUS_OK)
		return status;
	sale.currency = arena_strdup(arena, sale.currency);
	sale.etag = arena_strdup(arena, sale.etag);
	sale.title = arena_strdup(arena, sale.title);
	frame->sale = sale;
	return STATUS_OK;
}

/* {verdict, sale} */
static enum status decode_verdict(struct call *call, const redisReply *reply)
{
	struct sale_frame *frame = call_frame(call);

	if (reply->type == REDIS_REPLY_NIL)
		return STATUS_NOT_FOUND;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
		return STATUS_INTERNAL;
	frame->verdict = (int)number(reply->element[0]);
	return decode_into_frame(call, reply->element[1]);
}

enum step store_get_sale(struct store *store, struct call *call, const char *sale_id,
			 call_then *then)
{
	char key[STORE_KEY_SIZE];
	struct args args = {0};

	store_key(key, sale_id, "");
	put(&args, key);
	return redis_script(store->redis, call, &store->get_sale, 1, as_redis(&args),
			    decode_into_frame, then);
}

void store_send_get_sale(struct store *store, struct redis_op *op, const char *sale_id)
{
	char key[STORE_KEY_SIZE];
	struct args args = {0};

	store_key(key, sale_id, "");
	put(&args, key);
	redis_send_script(store->redis, op, &store->get_sale, 1, as_redis(&args));
}

enum step store_create_sale(struct store *store, struct call *call, const char *sale_id,
			    const char *definition, const struct store_field *fields, int count,
			    call_then *then)
{
	char key[STORE_KEY_SIZE];
	struct args args = {0};

	store_key(key, sale_id, "");
	put(&args, key);
	put(&args, definition);
	put_fields(&args, fields, count);
	return redis_script(store->redis, call, &store->create_sale, 1, as_redis(&args),
			    decode_verdict, then);
}

enum step store_update_sale(struct store *store, struct call *call, const char *sale_id,
			    const char *etag, const char *statuses,
			    const struct store_field *fields, int count, call_then *then)
{
	char key[STORE_KEY_SIZE];
	struct args args = {0};

	store_key(key, sale_id, "");
	put(&args, key);
	put(&args, etag);
	put(&args, statuses);
	put_fields(&args, fields, count);
	return redis_script(store->redis, call, &store->update_sale, 1, as_redis(&args),
			    decode_verdict, then);
}

enum step store_adjust_stock(struct store *store, struct call *call, const char *sale_id,
			     const char *request_id, int64_t delta, call_then *then)
{
	char key[STORE_KEY_SIZE], adjustments[STORE_KEY_SIZE], delta_text[24];
	struct args args = {0};

	store_key(key, sale_id, "");
	store_key(adjustments, sale_id, ":adjustments");
	snprintf(delta_text, sizeof(delta_text), "%" PRId64, delta);
	put(&args, key);
	put(&args, adjustments);
	put(&args, request_id);
	put(&args, delta_text);
	return redis_script(store->redis, call, &store->adjust_stock, 2, as_redis(&args),
			    decode_verdict, then);
}

static enum status decode_nothing(struct call *call, const redisReply *reply)
{
	(void)call;
	(void)reply;
	return STATUS_OK;
}

enum step store_register_sale(struct store *store, struct call *call, const char *sale_id,
			      call_then *then)
{
	struct args args = {0};

	put(&args, "ZADD");
	put(&args, STORE_SALES);
	put(&args, "0");
	put(&args, sale_id);
	return redis_command(store->redis, call, as_redis(&args), decode_nothing, then);
}

/* --- reservations ------------------------------------------------------------------------------- */

static int reservation_status(char state)
{
	return state == 'R' ? 1 : state == 'C' ? 2 : state == 'X' ? 3 : 0;
}

/* The line "<mark><id>" as a whole, or NULL. */
static char *find_line(char *value, char mark, const char *id)
{
	size_t size = strlen(id);

	for (char *at = value; (at = strchr(at, '\n'));)
		if (*++at == mark && !strncmp(at + 1, id, size) && at[1 + size] == '\n')
			return at;
	return NULL;
}

static char *line_before(const char *value, char *line)
{
	if (line - value < 2)
		return NULL;
	for (line--; line > value && line[-1] != '\n'; line--)
		;
	return line;
}

bool store_find_reservation(char *value, const char *order_id, const char *request_id,
			    struct reservation_record *ret_record)
{
	char *at = order_id ? find_line(value, 'O', order_id) : find_line(value, 'I', request_id);
	char *lines[4];

	/* Back to the first of the four lines. */
	for (int back = order_id ? 1 : 3; at && back; back--)
		at = line_before(value, at);
	if (!at)
		return false;
	for (int i = 0; i < 4; i++)
		if (!(lines[i] = strsep(&at, "\n")) || !*lines[i])
			return false;
	*ret_record = (struct reservation_record){.order_id = lines[1] + 1,
						  .user_id = ret_record->user_id,
						  .request_id = lines[3] + 1,
						  .quantity = (int)strtol(lines[2] + 1, NULL, 10),
						  .status = reservation_status(*lines[0]),
						  .reserved_ms = strtoll(lines[0] + 1, NULL, 10)};
	return ret_record->status;
}

static enum status take_reservation(struct call *call, const char *value)
{
	struct reservation_frame *frame = call_frame(call);
	const char *user_id = frame->reservation.user_id;

	frame->found = store_find_reservation(arena_strdup(call_arena(call), value),
					      frame->reservation.order_id,
					      frame->reservation.request_id, &frame->reservation);
	frame->reservation.user_id = user_id;
	return STATUS_OK;
}

static enum status decode_reservation(struct call *call, const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_NIL)
		return STATUS_NOT_FOUND;
	return take_reservation(call, text(reply));
}

enum step store_get_reservation(struct store *store, struct call *call, const char *sale_id,
				const char *user_id, const char *order_id, const char *request_id,
				call_then *then)
{
	struct reservation_frame *frame = call_frame(call);
	char key[STORE_KEY_SIZE], users[STORE_KEY_SIZE];
	struct args args = {0};

	frame->reservation = (struct reservation_record){
		.user_id = user_id, .order_id = order_id, .request_id = request_id};
	store_key(key, sale_id, "");
	store_key(users, sale_id, ":users");
	put(&args, key);
	put(&args, users);
	put(&args, user_id);
	return redis_script(store->redis, call, &store->get_reservation, 2, as_redis(&args),
			    decode_reservation, then);
}

int store_settled(const redisReply *reply, size_t index, const char **ret_value)
{
	const redisReply *answer = reply->element[index];

	*ret_value = text(answer->element[1]);
	return (int)number(answer->element[0]);
}

static enum status decode_settled(struct call *call, const redisReply *reply)
{
	struct reservation_frame *frame = call_frame(call);
	const char *value;

	if (reply->type == REDIS_REPLY_NIL)
		return STATUS_NOT_FOUND;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1)
		return STATUS_INTERNAL;
	frame->verdict = store_settled(reply, 0, &value);
	return take_reservation(call, value);
}

static void send_settle(struct args *args, char keys[2][STORE_KEY_SIZE], const char *sale_id,
			const struct store_settlement *settlements, int count)
{
	assert(count <= STORE_SETTLE_MAX);
	store_key(keys[0], sale_id, "");
	store_key(keys[1], sale_id, ":users");
	put(args, keys[0]);
	put(args, keys[1]);
	for (int i = 0; i < count; i++) {
		put(args, settlements[i].user_id);
		put(args, settlements[i].order_id);
		put(args, settlements[i].confirm ? "C" : "X");
	}
}

enum step store_settle(struct store *store, struct call *call, const char *sale_id,
		       const char *user_id, const char *order_id, bool confirm, call_then *then)
{
	struct store_settlement settlement = {user_id, order_id, confirm};
	struct reservation_frame *frame = call_frame(call);
	char keys[2][STORE_KEY_SIZE];
	struct args args = {0};

	frame->reservation = (struct reservation_record){.user_id = user_id, .order_id = order_id};
	send_settle(&args, keys, sale_id, &settlement, 1);
	return redis_script(store->redis, call, &store->settle, 2, as_redis(&args), decode_settled,
			    then);
}

void store_send_settle(struct store *store, struct redis_op *op, const char *sale_id,
		       const struct store_settlement *settlements, int count)
{
	char keys[2][STORE_KEY_SIZE];
	struct args args = {0};

	send_settle(&args, keys, sale_id, settlements, count);
	redis_send_script(store->redis, op, &store->settle, 2, as_redis(&args));
}
