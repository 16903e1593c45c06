// The peer's gateway: net/http in, grpc-go out, a call for each request.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "stampede.example/bench/peer/pb/inventory"
)

const (
	bodyMax  = 64 << 10
	deadline = 5 * time.Second
)

type gateway struct {
	inventory []pb.InventoryServiceClient
	next      atomic.Uint32
}

type reservation struct {
	UserID    string `json:"userId"`
	Quantity  int32  `json:"quantity"`
	RequestID string `json:"requestId"`
}

type answer struct {
	Outcome        string `json:"outcome"`
	OrderID        string `json:"orderId,omitempty"`
	Quantity       int32  `json:"quantity,omitempty"`
	PayBy          string `json:"payBy,omitempty"`
	RepeatedAnswer bool   `json:"repeatedAnswer,omitempty"`
}

func (g *gateway) reserve(w http.ResponseWriter, r *http.Request) {
	var body reservation
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyMax)).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deadline)
	defer cancel()
	client := g.inventory[g.next.Add(1)%uint32(len(g.inventory))]
	reply, err := client.Reserve(ctx, &pb.ReserveRequest{SaleId: r.PathValue("sale"), UserId: body.UserID,
		Quantity: body.Quantity, RequestId: body.RequestID})
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	result := answer{Outcome: reply.Outcome.String(), OrderID: reply.OrderId, Quantity: reply.Quantity,
		RepeatedAnswer: reply.RepeatedAnswer}
	if reply.PayBy != nil {
		result.PayBy = reply.PayBy.AsTime().Format(time.RFC3339Nano)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(&result); err != nil {
		log.Printf("answer: %v", err)
	}
}

func (g *gateway) stock(w http.ResponseWriter, r *http.Request) {
	reply, err := g.inventory[0].GetStock(r.Context(), &pb.GetStockRequest{SaleId: r.PathValue("sale")})
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"stock":{"total":"%d","available":"%d","reserved":"%d","sold":"%d"}}`+"\n",
		reply.Stock.Total, reply.Stock.Available, reply.Stock.Reserved, reply.Stock.Sold)
}

func statusOf(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusServiceUnavailable
	}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "HTTP address")
	target := flag.String("inventory", "127.0.0.1:7001", "gRPC target")
	connections := flag.Int("connections", 1, "to the inventory")
	flag.Parse()

	g := &gateway{}
	for range *connections {
		connection, err := grpc.NewClient(*target, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		g.inventory = append(g.inventory, pb.NewInventoryServiceClient(connection))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sales/{sale}/reservations", g.reserve)
	mux.HandleFunc("GET /v1/sales/{sale}/stock", g.stock)
	server := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal(err)
	}
}
