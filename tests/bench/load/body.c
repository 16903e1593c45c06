/* The messages of the load, written by hand: protobuf's wire format is small, and encoding each
 * request anew would cost the generator more than sending it.
 *
 *     sale_id "bench", user_id "user-…", quantity 1, request_id "req-2026-11-11-…"
 *
 * with 16 digits for each "…": 65 bytes, 70 with gRPC's framing.
 */
#include "body.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { VARINT = 0, BYTES = 2, PREFIX = 5 };

static void put_varint(struct body *body, uint64_t value)
{
	for (; value >= 128; value >>= 7)
		body->bytes[body->size++] = (uint8_t)(value | 128);
	body->bytes[body->size++] = (uint8_t)value;
}

static void put_number(struct body *body, unsigned field, uint64_t value)
{
	put_varint(body, field << 3 | VARINT);
	put_varint(body, value);
}

static void put_text(struct body *body, unsigned field, const char *text)
{
	size_t size = strlen(text);

	put_varint(body, field << 3 | BYTES);
	put_varint(body, size);
	assert(body->size + size < BODY_SIZE_MAX);
	memcpy(body->bytes + body->size, text, size);
	body->size += size;
}

/* The last 16 bytes are digits that body_renew() writes. */
static size_t put_id(struct body *body, unsigned field, const char *text)
{
	put_text(body, field, text);
	return body->size - 16;
}

static void put_reservation(struct body *body, const char *sale_id)
{
	size_t *numbers = &body->numbers_at[2 * body->buyers++];

	if (*sale_id)
		put_text(body, 1, sale_id);
	numbers[0] = put_id(body, 2, "user-0000000000000000");
	put_number(body, 3, 1);
	numbers[1] = put_id(body, 4, "req-2026-11-11-0000000000000000");
}

static void put_sale(struct body *body, const char *sale_id, int64_t units)
{
	put_text(body, 1, sale_id);
	put_text(body, 2, "Bench");
	put_number(body, 3, (uint64_t)units);
	put_number(body, 4, 2);
	put_text(body, 7,
		 "\x08\xcf\x0f\x12\x03"
		 "EUR"); /* Money: 19.99 euros */
	put_number(body, 11, 1);
}

void body_init(struct body *body, enum body_kind kind, const char *sale_id, int64_t units,
	       int buyers, uint64_t first)
{
	static const char *const paths[] = {
		[BODY_ECHO] = "/stampede.bench.v1.EchoService/Echo",
		[BODY_RESERVE] = "/stampede.inventory.v1.InventoryService/Reserve",
		[BODY_RESERVE_MANY] = "/stampede.inventory.v1.InventoryService/ReserveMany",
		[BODY_CREATE_SALE] = "/stampede.inventory.v1.InventoryService/CreateSale",
	};
	size_t message;

	assert(buyers >= 1 && buyers <= BODY_BUYERS_MAX);
	*body = (struct body){.kind = kind, .path = paths[kind], .size = PREFIX, .next = first};
	switch (kind) {
	case BODY_ECHO:
	case BODY_RESERVE:
		put_reservation(body, sale_id);
		break;
	case BODY_RESERVE_MANY:
		put_text(body, 1, sale_id);
		for (int i = 0; i < buyers; i++) {
			struct body one = {.size = 0};
			size_t start;

			put_reservation(&one, "");
			put_varint(body, 2 << 3 | BYTES);
			put_varint(body, one.size);
			start = body->size;
			assert(start + one.size <= BODY_SIZE_MAX);
			memcpy(body->bytes + start, one.bytes, one.size);
			body->size += one.size;
			body->numbers_at[2 * i] = start + one.numbers_at[0];
			body->numbers_at[2 * i + 1] = start + one.numbers_at[1];
		}
		body->buyers = buyers;
		break;
	case BODY_CREATE_SALE:
		put_sale(body, sale_id, units);
		break;
	}
	message = body->size - PREFIX;
	body->bytes[1] = (uint8_t)(message >> 24);
	body->bytes[2] = (uint8_t)(message >> 16);
	body->bytes[3] = (uint8_t)(message >> 8);
	body->bytes[4] = (uint8_t)message;
}

static void write_digits(uint8_t *at, uint64_t number)
{
	for (int i = 15; i >= 0; i--, number >>= 4)
		at[i] = (uint8_t) "0123456789abcdef"[number & 15];
}

void body_renew(struct body *body)
{
	for (int i = 0; i < body->buyers; i++) {
		write_digits(body->bytes + body->numbers_at[2 * i], body->next);
		write_digits(body->bytes + body->numbers_at[2 * i + 1], body->next);
		body->next++;
	}
}

static uint64_t take_varint(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;

	for (int shift = 0; *at < end && shift < 64; shift += 7) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return value;
	}
	return 0;
}

/* ReserveResponse: field 1 is the outcome, field 5 says that it is a repeated answer. */
static void count_response(const uint8_t *at, const uint8_t *end, uint64_t counts[BODY_OUTCOMES])
{
	uint64_t outcome = 0;

	while (at < end) {
		uint64_t key = take_varint(&at, end), value = take_varint(&at, end);

		if ((key & 7) == BYTES) {
			if (value > (uint64_t)(end - at))
				break;
			at += value;
		} else if (key == (1 << 3 | VARINT)) {
			outcome = value;
		} else if (key == (5 << 3 | VARINT) && value) {
			outcome = BODY_REPEATED;
		}
	}
	counts[outcome < BODY_OUTCOMES ? outcome : 0]++;
}

/* ReserveManyResponse: results, each a response or an error. */
static void count_results(const uint8_t *at, const uint8_t *end, int buyers,
			  uint64_t counts[BODY_OUTCOMES])
{
	int results = 0;

	while (end - at >= 2 && *at == (1 << 3 | BYTES)) {
		const uint8_t *result_end;
		uint64_t size;

		at++;
		size = take_varint(&at, end);
		if (size > (size_t)(end - at))
			break;
		result_end = at + size;
		if (size > 2 && *at == (1 << 3 | BYTES)) {
			const uint8_t *response = at + 1;

			(void)take_varint(&response, result_end); /* the rest of the result */
			count_response(response, result_end, counts);
		} else {
			counts[0]++;
		}
		at = result_end;
		results++;
	}
	if (results < buyers)
		counts[0] += (uint64_t)(buyers - results);
}

void body_count(const struct body *body, const uint8_t *message, size_t size,
		uint64_t counts[BODY_OUTCOMES])
{
	switch (body->kind) {
	case BODY_ECHO:
		counts[size + PREFIX == body->size ? 1 : 0]++;
		break;
	case BODY_RESERVE:
		count_response(message, message + size, counts);
		break;
	case BODY_RESERVE_MANY:
		count_results(message, message + size, body->buyers, counts);
		break;
	case BODY_CREATE_SALE:
		counts[size > 2 ? 1 : 0]++;
		break;
	}
}
