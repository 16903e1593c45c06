/* Inventory.CreateSale: a new sale, once.
 *
 *     begin ──► registered ──► created ──► reply
 *
 * It is put among all sales first: one that is listed and does not exist yet is passed over, one that existed
 * and was not listed would never be found again.
 */
#include <inttypes.h>
#include <string.h>

#include "inventory/reply.h"
#include "runtime/utf8.h"

#define TOTAL_MAX 1000000000
#define LIMIT_MAX 1000000
#define TITLE_MAX 200
#define PAY_MIN_MS 1000
#define PAY_MAX_MS (30 * 86400000LL)
#define PAY_DEFAULT_MS (30 * 60000)
#define REPLICAS_MAX 16

struct create_sale {
	struct sale_frame frame; /* first: the store fills it */
	const char *sale_id, *definition;
	struct store_field fields[STORE_FIELDS_MAX];
	int count;
};

static enum step create_sale_registered(struct call *call, enum status status);
static enum step create_sale_created(struct call *call, enum status status);

static void set_text(struct create_sale *create, const char *name, const char *value)
{
	create->fields[create->count++] = (struct store_field){name, value};
}

static void set_number(struct call *call, struct create_sale *create, const char *name,
		       int64_t value)
{
	set_text(create, name, arena_printf(call_arena(call), "%" PRId64, value));
}

/* A name nobody else makes: the trace's random id. */
static const char *make_id(struct call *call)
{
	struct trace fresh = trace_make();
	char text[33];

	trace_id_format(&fresh, text);
	text[16] = 0;
	return arena_strdup(call_arena(call), text);
}

static const char *check_currency(const char *currency)
{
	if (strlen(currency) != 3)
		return "must be three capital letters (ISO 4217)";
	for (; *currency; currency++)
		if (*currency < 'A' || *currency > 'Z')
			return "must be three capital letters (ISO 4217)";
	return NULL;
}

struct checked {
	int64_t starts_ms, ends_ms, pay_ms;
};

static const char *check(const Stampede__Inventory__V1__CreateSaleRequest *request,
			 struct checked *ret, const char **ret_field)
{
	const char *wrong;

	*ret_field = "sale_id";
	if (*request->sale_id && (wrong = check_id(request->sale_id)))
		return wrong;
	*ret_field = "title";
	if (*request->title && !utf8_identifier(request->title, 1, TITLE_MAX))
		return "must be at most 200 bytes without control characters";
	*ret_field = "total";
	if (request->total < 0 || request->total > TOTAL_MAX)
		return "must be 0 to 1,000,000,000";
	*ret_field = "per_user_limit";
	if (request->per_user_limit < 0 || request->per_user_limit > LIMIT_MAX)
		return "must be 1 to 1,000,000";
	*ret_field = "starts_at";
	if ((wrong = check_time(request->starts_at, &ret->starts_ms)))
		return wrong;
	*ret_field = "ends_at";
	if ((wrong = check_time(request->ends_at, &ret->ends_ms)))
		return wrong;
	if (ret->ends_ms && ret->ends_ms <= ret->starts_ms)
		return "must be later than starts_at";
	*ret_field = "unit_price.amount_minor";
	if (request->unit_price && (request->unit_price->amount_minor < 0 ||
				    request->unit_price->amount_minor > INT64_MAX / 1000000))
		return "must be 0 to 9,223,372,036,854";
	*ret_field = "unit_price.currency";
	if (request->unit_price && (wrong = check_currency(request->unit_price->currency)))
		return wrong;
	*ret_field = "payment_timeout";
	if ((wrong = check_duration(request->payment_timeout, PAY_MIN_MS, PAY_MAX_MS,
				    PAY_DEFAULT_MS, &ret->pay_ms)))
		return "must be 1 s to 30 days";
	*ret_field = "durability";
	if ((int)request->durability < 0 || (int)request->durability > 3)
		return "is not a known durability";
	*ret_field = "min_replicas";
	if (request->durability == STAMPEDE__INVENTORY__V1__DURABILITY__DURABILITY_REPLICATED
		    ? request->min_replicas < 1 || request->min_replicas > REPLICAS_MAX
		    : request->min_replicas != 0)
		return "must be 1 to 16 with DURABILITY_REPLICATED, and 0 otherwise";
	return NULL;
}

static void fill(struct call *call, struct create_sale *create, const struct checked *checked)
{
	const Stampede__Inventory__V1__CreateSaleRequest *request = call_request(call);
	const Stampede__Inventory__V1__Money *price = request->unit_price;
	char *definition = arena_strdup(call_arena(call), "");

	set_number(call, create, "total", request->total);
	set_number(call, create, "available", request->total);
	set_number(call, create, "limit", request->per_user_limit ? request->per_user_limit : 1);
	set_number(call, create, "starts_ms", checked->starts_ms);
	set_number(call, create, "ends_ms", checked->ends_ms);
	set_number(call, create, "price", price ? price->amount_minor : 0);
	set_text(create, "currency", price ? price->currency : "");
	set_number(call, create, "pay_ms", checked->pay_ms);
	set_number(call, create, "durability", request->durability ? (int)request->durability : 1);
	set_number(call, create, "replicas", request->min_replicas);
	set_number(call, create, "status", request->open ? 2 : 1);
	set_text(create, "title", request->title);
	for (int i = 0; i < create->count; i++)
		definition = arena_printf(call_arena(call), "%s%s=%s\n", definition,
					  create->fields[i].name, create->fields[i].value);
	create->definition = definition;
}

static enum step create_sale_begin(struct call *call)
{
	const Stampede__Inventory__V1__CreateSaleRequest *request = call_request(call);
	struct inventory *inventory = call_service(call);
	struct create_sale *create = call_frame(call);
	struct checked checked;
	const char *field, *wrong = check(request, &checked, &field);

	if (wrong)
		return call_refuse(call, field, "%s", wrong);
	create->sale_id = *request->sale_id ? request->sale_id : make_id(call);
	fill(call, create, &checked);
	return store_register_sale(inventory->store, call, create->sale_id, create_sale_registered);
}

static enum step create_sale_registered(struct call *call, enum status status)
{
	struct inventory *inventory = call_service(call);
	struct create_sale *create = call_frame(call);

	if (status != STATUS_OK)
		return reply_failure(call, status, create->sale_id);
	return store_create_sale(inventory->store, call, create->sale_id, create->definition,
				 create->fields, create->count, create_sale_created);
}

static enum step create_sale_created(struct call *call, enum status status)
{
	Stampede__Inventory__V1__CreateSaleResponse response =
		STAMPEDE__INVENTORY__V1__CREATE_SALE_RESPONSE__INIT;
	struct create_sale *create = call_frame(call);

	if (status != STATUS_OK)
		return reply_failure(call, status, create->sale_id);
	if (create->frame.verdict == STORE_REFUSED)
		return call_fail_reason(call, STATUS_ALREADY_EXISTS, "SALE_EXISTS",
					"sale '%s' exists with other content", create->sale_id);
	response.sale = reply_sale(call, create->sale_id, &create->frame.sale);
	return call_reply(call, &response);
}

const struct method create_sale_method = {
	.name = "CreateSale", .begin = create_sale_begin, .frame_size = sizeof(struct create_sale)};
