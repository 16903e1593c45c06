/* A real single-node Kafka for a test, by the script beside this: in a temporary folder, on free ports.
 *
 * Its jars are fetched once into .deps. It never outlives the process that started it, and may be
 * stopped and started by that process's children. What cannot be done ends the test with a message.
 */
#pragma once

struct kafka_server;

/* Returns when it answers; about 3 s. */
struct kafka_server *kafka_server_start(void);
/* Stops it and removes its folder. NULL is taken. */
void kafka_server_free(struct kafka_server *server);

const char *kafka_server_url(const struct kafka_server *server); /* kafka://127.0.0.1:port */
void kafka_server_kill(struct kafka_server *server);		 /* kill -9 */
/* Starts it on the same port with the same data. */
void kafka_server_resume(struct kafka_server *server);
