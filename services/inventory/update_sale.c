/* Inventory.UpdateSale, OpenSale, PauseSale and CloseSale: change a sale's settings or status.
 *
 *     begin ──► changed ──► reply
 *
 * All four are one script with other fields and other statuses to start from. Watchers hear of it.
 */
#include <inttypes.h>
#include <string.h>

#include "inventory/reply.h"
#include "inventory/watch.h"
#include "runtime/utf8.h"

#define DRAFT "1"
#define OPEN "2"
#define PAUSED "3"
#define CLOSED "4"
#define FIELDS_MAX 8

struct update_sale {
	struct sale_frame frame; /* first: the store fills it */
	const char *sale_id, *etag;
};

static enum step update_sale_changed(struct call *call, enum status status);

/* Every response has `sale` in the same place. */
_Static_assert(sizeof(Stampede__Inventory__V1__UpdateSaleResponse) ==
			       sizeof(Stampede__Inventory__V1__OpenSaleResponse) &&
		       sizeof(Stampede__Inventory__V1__UpdateSaleResponse) ==
			       sizeof(Stampede__Inventory__V1__PauseSaleResponse) &&
		       sizeof(Stampede__Inventory__V1__UpdateSaleResponse) ==
			       sizeof(Stampede__Inventory__V1__CloseSaleResponse),
	       "one reply serves all four");

static enum step change(struct call *call, const char *sale_id, const char *etag,
			const char *statuses, const struct store_field *fields, int count)
{
	struct inventory *inventory = call_service(call);
	struct update_sale *update = call_frame(call);
	const char *wrong = check_id(sale_id);

	if (wrong)
		return call_refuse(call, "sale_id", "%s", wrong);
	update->sale_id = sale_id;
	update->etag = etag;
	return store_update_sale(inventory->store, call, sale_id, etag, statuses, fields, count,
				 update_sale_changed);
}

static enum step update_sale_changed(struct call *call, enum status status)
{
	static const char *const statuses[] = {"?", "DRAFT", "OPEN", "PAUSED", "CLOSED"};
	struct inventory *inventory = call_service(call);
	struct update_sale *update = call_frame(call);
	struct sale *sale = &update->frame.sale;
	Stampede__Inventory__V1__UpdateSaleResponse response =
		STAMPEDE__INVENTORY__V1__UPDATE_SALE_RESPONSE__INIT;

	if (status != STATUS_OK)
		return reply_failure(call, status, update->sale_id);
	if (update->frame.verdict == STORE_REFUSED)
		return call_fail_reason(call, STATUS_ABORTED, "STALE_ETAG",
					"sale '%s' has etag '%s' by now, not '%s'", update->sale_id,
					sale->etag, update->etag);
	if (update->frame.verdict == STORE_REFUSED_STATUS)
		return call_fail_reason(call, STATUS_FAILED_PRECONDITION, "WRONG_STATUS",
					"sale '%s' is %s", update->sale_id,
					statuses[sale->status & 7 ? sale->status % 5 : 0]);
	if (update->frame.verdict == STORE_CHANGED)
		watches_changed(inventory->watches, update->sale_id);
	response.base.descriptor = call_output(call);
	response.sale = reply_sale(call, update->sale_id, sale);
	return call_reply(call, &response);
}

static enum step open_sale_begin(struct call *call)
{
	const Stampede__Inventory__V1__OpenSaleRequest *request = call_request(call);

	return change(call, request->sale_id, "", DRAFT PAUSED,
		      &(struct store_field){"status", OPEN}, 1);
}

static enum step pause_sale_begin(struct call *call)
{
	const Stampede__Inventory__V1__PauseSaleRequest *request = call_request(call);

	return change(call, request->sale_id, "", OPEN, &(struct store_field){"status", PAUSED}, 1);
}

static enum step close_sale_begin(struct call *call)
{
	const Stampede__Inventory__V1__CloseSaleRequest *request = call_request(call);

	return change(call, request->sale_id, "", DRAFT OPEN PAUSED,
		      &(struct store_field){"status", CLOSED}, 1);
}

struct fields {
	struct store_field list[FIELDS_MAX];
	int count;
};

static void set_number(struct call *call, struct fields *fields, const char *name, int64_t value)
{
	if (value)
		fields->list[fields->count++] = (struct store_field){
			name, arena_printf(call_arena(call), "%" PRId64, value)};
}

static enum step update_sale_begin(struct call *call)
{
	const Stampede__Inventory__V1__UpdateSaleRequest *request = call_request(call);
	const Stampede__Inventory__V1__Money *price = request->unit_price;
	struct fields fields = {0};
	int64_t starts_ms, ends_ms, pay_ms;
	const char *wrong;

	if (*request->title && !utf8_identifier(request->title, 1, 200))
		return call_refuse(call, "title",
				   "must be at most 200 bytes without control characters");
	if (request->per_user_limit < 0 || request->per_user_limit > 1000000)
		return call_refuse(call, "per_user_limit", "must be 1 to 1,000,000");
	if ((wrong = check_time(request->starts_at, &starts_ms)))
		return call_refuse(call, "starts_at", "%s", wrong);
	if ((wrong = check_time(request->ends_at, &ends_ms)))
		return call_refuse(call, "ends_at", "%s", wrong);
	if (starts_ms && ends_ms && ends_ms <= starts_ms)
		return call_refuse(call, "ends_at", "must be later than starts_at");
	if (check_duration(request->payment_timeout, 1000, 30 * 86400000LL, 0, &pay_ms))
		return call_refuse(call, "payment_timeout", "must be 1 s to 30 days");
	if (price && (price->amount_minor < 0 || price->amount_minor > INT64_MAX / 1000000))
		return call_refuse(call, "unit_price.amount_minor", "is out of range");
	if (price && strlen(price->currency) != 3)
		return call_refuse(call, "unit_price.currency",
				   "must be three capital letters (ISO 4217)");
	if (*request->title)
		fields.list[fields.count++] = (struct store_field){"title", request->title};
	set_number(call, &fields, "limit", request->per_user_limit);
	set_number(call, &fields, "starts_ms", starts_ms);
	set_number(call, &fields, "ends_ms", ends_ms);
	set_number(call, &fields, "pay_ms", pay_ms);
	if (price) {
		fields.list[fields.count++] = (struct store_field){
			"price", arena_printf(call_arena(call), "%" PRId64, price->amount_minor)};
		fields.list[fields.count++] = (struct store_field){"currency", price->currency};
	}
	return change(call, request->sale_id, request->etag, DRAFT OPEN PAUSED, fields.list,
		      fields.count);
}

const struct method update_sale_method = {
	.name = "UpdateSale", .begin = update_sale_begin, .frame_size = sizeof(struct update_sale)};
const struct method open_sale_method = {
	.name = "OpenSale", .begin = open_sale_begin, .frame_size = sizeof(struct update_sale)};
const struct method pause_sale_method = {
	.name = "PauseSale", .begin = pause_sale_begin, .frame_size = sizeof(struct update_sale)};
const struct method close_sale_method = {
	.name = "CloseSale", .begin = close_sale_begin, .frame_size = sizeof(struct update_sale)};
