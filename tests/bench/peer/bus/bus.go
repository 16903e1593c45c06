// Package bus carries reservations from the inventory to the order service: by Kafka, or, so that
// like can be compared with like, by a Redis Stream.
package bus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic      = "peer-reservations"
	group      = "peer-orders"
	partitions = 4
	batchMax   = 1000
)

// Record is one reservation on its way. Done runs when the bus has it, or has refused it.
type Record struct {
	Key   string
	Value []byte
	Done  func(error)
}

type Producer interface {
	Publish(Record)
	Close()
}

// Consume hands batches to handle, and commits each one after handle returned nil.
type Consumer interface {
	Consume(ctx context.Context, handle func([][]byte) error) error
}

func NewProducer(address string) (Producer, error) {
	if brokers, ok := strings.CutPrefix(address, "kafka://"); ok {
		return newKafkaProducer(brokers)
	}
	return newStreamProducer(address)
}

func NewConsumer(address string) (Consumer, error) {
	if brokers, ok := strings.CutPrefix(address, "kafka://"); ok {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(strings.Split(brokers, ",")...),
			kgo.ConsumerGroup(group),
			kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.DisableAutoCommit(),
			kgo.FetchMinBytes(16<<10),
			kgo.FetchMaxWait(50*time.Millisecond))
		return &kafkaConsumer{client}, err
	}
	client, err := open(address)
	return &streamConsumer{client}, err
}

type kafkaProducer struct{ client *kgo.Client }

func newKafkaProducer(brokers string) (Producer, error) {
	// franz-go is idempotent with acks=all unless told otherwise.
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(brokers, ",")...),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerLinger(10*time.Millisecond),
		kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	return &kafkaProducer{client}, nil
}

func (p *kafkaProducer) Publish(record Record) {
	p.client.Produce(context.Background(),
		&kgo.Record{Key: []byte(record.Key), Value: record.Value},
		func(_ *kgo.Record, err error) { record.Done(err) })
}

func (p *kafkaProducer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	p.client.Flush(ctx)
	p.client.Close()
}

type kafkaConsumer struct{ client *kgo.Client }

func (c *kafkaConsumer) Consume(ctx context.Context, handle func([][]byte) error) error {
	defer c.client.Close()
	for {
		fetches := c.client.PollRecords(ctx, batchMax)
		if ctx.Err() != nil {
			return nil
		}
		if fetches.Empty() {
			continue
		}
		values := make([][]byte, 0, fetches.NumRecords())
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, record.Value) })
		if err := handle(values); err != nil {
			return err
		}
		if err := c.client.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// streamProducer sends what has queued up in one pipeline: natural batches.
type streamProducer struct {
	client *redis.Client
	queue  chan Record
	closed chan struct{}
}

func newStreamProducer(address string) (Producer, error) {
	client, err := open(address)
	if err != nil {
		return nil, err
	}
	p := &streamProducer{client, make(chan Record, 100_000), make(chan struct{})}
	go p.run()
	return p, nil
}

func (p *streamProducer) Publish(record Record) { p.queue <- record }

func (p *streamProducer) Close() {
	close(p.queue)
	<-p.closed
	p.client.Close()
}

func (p *streamProducer) run() {
	defer close(p.closed)
	for {
		batch := Gather(p.queue, batchMax)
		if batch == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		commands, _ := p.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, record := range batch {
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: topic, Values: []any{"value", record.Value}})
			}
			return nil
		})
		cancel()
		for i, record := range batch {
			record.Done(commands[i].Err())
		}
	}
}

// Gather waits for one element and takes along whatever else is there. Nil: the channel is closed.
func Gather[T any](queue <-chan T, most int) []T {
	first, ok := <-queue
	if !ok {
		return nil
	}
	batch := []T{first}
	for len(batch) < most {
		select {
		case next, ok := <-queue:
			if !ok {
				return batch
			}
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

type streamConsumer struct{ client *redis.Client }

func (c *streamConsumer) Consume(ctx context.Context, handle func([][]byte) error) error {
	defer c.client.Close()
	err := c.client.XGroupCreateMkStream(ctx, topic, group, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return err
	}
	name := fmt.Sprintf("order-%d", os.Getpid())
	for {
		streams, err := c.client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: name, Streams: []string{topic, ">"}, Count: batchMax, Block: time.Second,
		}).Result()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return err
		}
		messages := streams[0].Messages
		values, ids := make([][]byte, len(messages)), make([]string, len(messages))
		for i, message := range messages {
			text, _ := message.Values["value"].(string)
			values[i], ids[i] = []byte(text), message.ID
		}
		if err := handle(values); err != nil {
			return err
		}
		_, err = c.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.XAck(ctx, topic, group, ids...)
			pipe.XDel(ctx, topic, ids...)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func open(address string) (*redis.Client, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}
