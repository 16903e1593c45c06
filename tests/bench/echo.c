/* The ceiling: a unary echo on gRPC's C core with nothing around it.
 *
 *     request ──► echo_arrived ──► answer and status in one batch ──► echo_finished ──┐
 *        ▲                                                                 echo_wait ◄┘
 *
 * One thread, one completion queue, one registered method, every slot made at start: what no
 * service on this library can exceed. `bench_echo ADDRESS` serves until SIGTERM; it exits 1 when
 * the address is taken.
 */
#include <assert.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { SLOTS = 1024 }; /* calls waited for or under way */

struct slot {
	grpc_call *call;
	grpc_byte_buffer *message;
	grpc_metadata_array metadata;
	gpr_timespec deadline;
	int cancelled;
	bool answering;
};

static grpc_server *server;
static grpc_completion_queue *queue;
static void *method;
static struct slot slots[SLOTS];

static void echo_wait(struct slot *slot)
{
	grpc_call_error error;

	slot->answering = false;
	slot->message = NULL;
	grpc_metadata_array_init(&slot->metadata);
	error = grpc_server_request_registered_call(server, method, &slot->call, &slot->deadline,
						    &slot->metadata, &slot->message, queue, queue,
						    slot);
	assert(error == GRPC_CALL_OK);
}

static void echo_arrived(struct slot *slot)
{
	grpc_op ops[4] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = slot->message},
		{.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
		{.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
		 .data.recv_close_on_server.cancelled = &slot->cancelled},
	};
	grpc_call_error error;

	slot->answering = true;
	if (!slot->message) { /* the client went away before its message came */
		ops[1] = ops[3];
		ops[2].data.send_status_from_server.status = GRPC_STATUS_INVALID_ARGUMENT;
	}
	error = grpc_call_start_batch(slot->call, ops, slot->message ? 4 : 3, slot, NULL);
	assert(error == GRPC_CALL_OK);
}

static void echo_finished(struct slot *slot)
{
	grpc_byte_buffer_destroy(slot->message);
	grpc_metadata_array_destroy(&slot->metadata);
	grpc_call_unref(slot->call);
}

static void stop(int number)
{
	(void)number;
	_exit(0); /* nothing here outlives the process */
}

int main(int argc, char **argv)
{
	grpc_event event;

	if (argc != 2) {
		fprintf(stderr, "usage: bench_echo ADDRESS\n");
		return 2;
	}
	signal(SIGTERM, stop);
	signal(SIGPIPE, SIG_IGN);

	grpc_init();
	server = grpc_server_create(NULL, NULL);
	queue = grpc_completion_queue_create_for_next(NULL);
	method = grpc_server_register_method(server, "/stampede.bench.v1.EchoService/Echo", NULL,
					     GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
	grpc_server_register_completion_queue(server, queue, NULL);
	if (!grpc_server_add_http2_port(server, argv[1],
					grpc_insecure_server_credentials_create())) {
		fprintf(stderr, "bench_echo: cannot listen on %s\n", argv[1]);
		return 1;
	}
	grpc_server_start(server);
	for (int i = 0; i < SLOTS; i++)
		echo_wait(&slots[i]);

	for (;;) {
		struct slot *slot;

		event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
		if (event.type != GRPC_OP_COMPLETE)
			break;
		slot = event.tag;
		if (slot->answering) {
			echo_finished(slot);
			echo_wait(slot);
		} else if (event.success) {
			echo_arrived(slot);
		}
	}
	return 0;
}
