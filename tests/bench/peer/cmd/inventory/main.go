// The peer's inventory service: one EVALSHA a reservation, then the event goes to the bus, and its
// outbox entry is deleted when the bus has it.
package main

import (
	"context"
	_ "embed"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"stampede.example/bench/peer/bus"
	"stampede.example/bench/peer/pb/events"
	pb "stampede.example/bench/peer/pb/inventory"
)

//go:embed reserve.lua
var reserveSource string
var reserveScript = redis.NewScript(reserveSource)

const (
	payWithin = 30 * time.Minute
	epochMs   = 1735689600000 // 2025-01-01, as our order ids count
	idMax     = 64
)

type server struct {
	pb.UnimplementedInventoryServiceServer
	redis     *redis.Client
	scripts   redis.Scripter // the same, or its pipeline
	bus       bus.Producer
	published chan entry
	sequence  atomic.Uint64
}

// entry of an outbox that the bus has confirmed.
type entry struct{ outbox, id string }

type keys struct{ sale, requests, buyers, reservations, outbox string }

func keysOf(sale string) keys {
	tag := "{sale:" + sale + "}"
	return keys{tag, tag + ":requests", tag + ":buyers", tag + ":reservations", tag + ":outbox"}
}

func (s *server) orderID(now time.Time) string {
	return strconv.FormatUint(uint64(now.UnixMilli()-epochMs)<<23|s.sequence.Add(1)&(1<<23-1), 10)
}

func (s *server) CreateSale(ctx context.Context, r *pb.CreateSaleRequest) (*pb.CreateSaleResponse, error) {
	state := "draft"
	if r.Open {
		state = "open"
	}
	limit := max(r.PerUserLimit, 1)
	err := s.redis.HSet(ctx, keysOf(r.SaleId).sale, "status", state, "limit", limit,
		"total", r.Total, "available", r.Total, "reserved", 0, "sold", 0).Err()
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "sale '%s' was not created: %v", r.SaleId, err)
	}
	return &pb.CreateSaleResponse{Sale: &pb.Sale{SaleId: r.SaleId, Total: r.Total, Available: r.Total}}, nil
}

func (s *server) GetStock(ctx context.Context, r *pb.GetStockRequest) (*pb.GetStockResponse, error) {
	values, err := s.redis.HMGet(ctx, keysOf(r.SaleId).sale, "total", "available", "reserved", "sold").Result()
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "stock of '%s' was not read: %v", r.SaleId, err)
	}
	if values[0] == nil {
		return nil, status.Errorf(codes.NotFound, "no sale '%s'", r.SaleId)
	}
	number := func(i int) int64 {
		text, _ := values[i].(string)
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	return &pb.GetStockResponse{Stock: &pb.Stock{SaleId: r.SaleId, Total: number(0), Available: number(1),
		Reserved: number(2), Sold: number(3)}}, nil
}

func (s *server) Reserve(ctx context.Context, r *pb.ReserveRequest) (*pb.ReserveResponse, error) {
	for _, id := range []string{r.SaleId, r.UserId, r.RequestId} {
		if id == "" || len(id) > idMax {
			return nil, status.Error(codes.InvalidArgument, "ids must have 1 to 64 bytes")
		}
	}
	if r.Quantity < 1 || r.Quantity > 1000 {
		return nil, status.Error(codes.InvalidArgument, "quantity must be from 1 to 1,000")
	}

	now := time.Now()
	payBy := now.Add(payWithin)
	orderID := s.orderID(now)
	event, err := proto.Marshal(&events.ReservationMade{OrderId: orderID, SaleId: r.SaleId, UserId: r.UserId,
		Quantity: r.Quantity, RequestId: r.RequestId, AmountMinor: 1999 * int64(r.Quantity), Currency: "EUR",
		ReservedAt: timestamppb.New(now), PayBy: timestamppb.New(payBy)})
	if err != nil {
		return nil, status.Errorf(codes.Internal, "event: %v", err)
	}

	k := keysOf(r.SaleId)
	reply, err := reserveScript.EvalSha(ctx, s.scripts,
		[]string{k.sale, k.requests, k.buyers, k.reservations, k.outbox},
		r.RequestId, r.UserId, r.Quantity, orderID, now.UnixMilli(), payBy.UnixMilli(), event).Slice()
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "not reserved: %v", err)
	}
	outcome, _ := reply[0].(int64)
	if outcome < 0 {
		return nil, status.Errorf(codes.NotFound, "no sale '%s'", r.SaleId)
	}
	answer := &pb.ReserveResponse{Outcome: pb.Outcome(outcome)}
	if outcome != int64(pb.Outcome_OUTCOME_RESERVED) {
		return answer, nil
	}
	answer.OrderId, _ = reply[1].(string)
	quantity, _ := reply[2].(int64)
	answer.Quantity = int32(quantity)
	payByMs, _ := reply[3].(int64)
	answer.PayBy = timestamppb.New(time.UnixMilli(payByMs))
	if repeated, _ := reply[4].(int64); repeated != 0 {
		answer.RepeatedAnswer = true
		return answer, nil
	}

	id, _ := reply[5].(string)
	s.bus.Publish(bus.Record{Key: orderID, Value: event, Done: func(err error) {
		if err != nil {
			log.Printf("order %s stays in the outbox: %v", orderID, err)
			return
		}
		s.published <- entry{k.outbox, id}
	}})
	return answer, nil
}

// Deletes what the bus has confirmed, as much at a time as has come together.
func (s *server) sweep() {
	ctx := context.Background()
	for {
		batch := bus.Gather(s.published, 1000)
		if batch == nil {
			return
		}
		ids := make(map[string][]string, 1)
		for _, e := range batch {
			ids[e.outbox] = append(ids[e.outbox], e.id)
		}
		for outbox, list := range ids {
			if err := s.redis.XDel(ctx, outbox, list...).Err(); err != nil {
				log.Printf("outbox %s: %v", outbox, err)
			}
		}
	}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:7001", "gRPC address")
	redisURL := flag.String("redis", "redis://127.0.0.1:6379", "")
	busURL := flag.String("bus", "", "kafka://host:port, or a redis URL; empty: as -redis")
	pool := flag.Int("pool", 64, "connections to Redis")
	pipeline := flag.Bool("pipeline", true, "concurrent reservations share a pipeline")
	flag.Parse()
	if *busURL == "" {
		*busURL = *redisURL
	}

	options, err := redis.ParseURL(*redisURL)
	if err != nil {
		log.Fatal(err)
	}
	options.PoolSize, options.MinIdleConns = *pool, *pool
	client := redis.NewClient(options)
	if err := reserveScript.Load(context.Background(), client).Err(); err != nil {
		log.Fatal(err)
	}
	producer, err := bus.NewProducer(*busURL)
	if err != nil {
		log.Fatal(err)
	}

	s := &server{redis: client, scripts: client, bus: producer, published: make(chan entry, 100_000)}
	if *pipeline {
		if s.scripts, err = client.AutoPipeline(); err != nil {
			log.Fatal(err)
		}
	}
	go s.sweep()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	g := grpc.NewServer()
	pb.RegisterInventoryServiceServer(g, s)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		g.GracefulStop()
	}()
	if err := g.Serve(listener); err != nil {
		log.Fatal(err)
	}
	producer.Close()
}
