// The peer's order service: batches from the bus into SQLite, one transaction a batch; the position
// is committed after it.
package main

import (
	"context"
	"database/sql"
	"flag"
	"log"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	_ "github.com/mattn/go-sqlite3"
	"google.golang.org/protobuf/proto"

	"stampede.example/bench/peer/bus"
	"stampede.example/bench/peer/pb/events"
)

const (
	schema = `CREATE TABLE IF NOT EXISTS orders (
	order_id INTEGER PRIMARY KEY, sale_id TEXT NOT NULL, user_id TEXT NOT NULL, quantity INTEGER NOT NULL,
	status INTEGER NOT NULL, request_id TEXT NOT NULL, amount_minor INTEGER NOT NULL, currency TEXT NOT NULL,
	reserved_at INTEGER NOT NULL, pay_by INTEGER NOT NULL, UNIQUE (sale_id, request_id))`
	insert  = "INSERT OR IGNORE INTO orders VALUES "
	row     = "(?,?,?,?,1,?,?,?,?,?)"
	columns = 9
	rowsMax = 50 // in one statement
)

type store struct {
	db   *sql.DB
	rows *sql.Stmt // inserts rowsMax rows
}

func statement(rows int) string {
	return insert + strings.Repeat(row+",", rows-1) + row
}

func openStore(path string) (*store, error) {
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(schema); err != nil {
		return nil, err
	}
	rows, err := db.Prepare(statement(rowsMax))
	return &store{db, rows}, err
}

func (s *store) insert(values [][]byte) error {
	args := make([]any, 0, len(values)*columns)
	for _, value := range values {
		var e events.ReservationMade
		if err := proto.Unmarshal(value, &e); err != nil {
			log.Printf("not a reservation: %v", err)
			continue
		}
		id, err := strconv.ParseInt(e.OrderId, 10, 64)
		if err != nil {
			log.Printf("not an order id: %v", err)
			continue
		}
		args = append(args, id, e.SaleId, e.UserId, e.Quantity, e.RequestId, e.AmountMinor, e.Currency,
			e.ReservedAt.AsTime().UnixMilli(), e.PayBy.AsTime().UnixMilli())
	}
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	rows := tx.Stmt(s.rows)
	for len(args) >= rowsMax*columns {
		if _, err := rows.Exec(args[:rowsMax*columns]...); err != nil {
			return err
		}
		args = args[rowsMax*columns:]
	}
	if len(args) > 0 {
		if _, err := tx.Exec(statement(len(args)/columns), args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func main() {
	busURL := flag.String("bus", "redis://127.0.0.1:6379", "kafka://host:port, or a redis URL")
	path := flag.String("database", "orders.db", "")
	flag.Parse()

	orders, err := openStore(*path)
	if err != nil {
		log.Fatal(err)
	}
	consumer, err := bus.NewConsumer(*busURL)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := consumer.Consume(ctx, orders.insert); err != nil {
		log.Fatal(err)
	}
	orders.db.Close()
}
