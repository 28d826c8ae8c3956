// An order and its mail: each in one transaction with the job that it belongs to.
//
// DATABASE_URL=postgres://… HENCE_SERVER=http://127.0.0.1:7070 go run .
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const orders = `CREATE TABLE IF NOT EXISTS orders
	(id int PRIMARY KEY, mailed boolean NOT NULL DEFAULT false, mails int NOT NULL DEFAULT 0)`

var errChangedMind = errors.New("changed my mind")

// placeOrder writes an order and the job that mails about it; both count when the caller commits.
func placeOrder(ctx context.Context, tx pgx.Tx, order int) error {
	if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", order); err != nil {
		return err
	}
	job := map[string]any{
		"queue": "mail", "id": fmt.Sprint("order-", order), "payload": map[string]int{"order": order},
	}
	_, err := tx.Exec(ctx, "SELECT hence.hence_add($1)", job)
	return err
}

// lease takes one job over HTTP; it waits for it for up to five seconds.
func lease(server string) (json.RawMessage, error) {
	body := strings.NewReader(`{"queue": "mail", "wait": "5s"}`)
	answer, err := http.Post(server+"/v1/leases", "application/json", body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var leased struct{ Jobs []json.RawMessage }
	if err := json.NewDecoder(answer.Body).Decode(&leased); err != nil {
		return nil, err
	}
	if len(leased.Jobs) != 1 {
		return nil, fmt.Errorf("%s with %d jobs", answer.Status, len(leased.Jobs))
	}
	return leased.Jobs[0], nil
}

// mail does the work and acknowledges the job, both or neither.
func mail(ctx context.Context, db *pgx.Conn, job json.RawMessage) error {
	var read struct{ Payload struct{ Order int } }
	if err := json.Unmarshal(job, &read); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		update := "UPDATE orders SET mailed = true, mails = mails + 1 WHERE id = $1"
		if _, err := tx.Exec(ctx, update, read.Payload.Order); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT hence.hence_ack($1)", job)
		return err
	})
}

func run(ctx context.Context) error {
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, orders); err != nil {
		return err
	}
	if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return placeOrder(ctx, tx, 1) }); err != nil {
		return err
	}
	// An error rolls back: neither order 2 nor its job was ever there.
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if err := placeOrder(ctx, tx, 2); err != nil {
			return err
		}
		return errChangedMind
	})
	if !errors.Is(err, errChangedMind) {
		return err
	}
	job, err := lease(cmp.Or(os.Getenv("HENCE_SERVER"), "http://127.0.0.1:7070"))
	if err != nil {
		return err
	}
	fmt.Printf("leased %s\n", job)
	if err := mail(ctx, db, job); err != nil {
		return err
	}
	err = mail(ctx, db, job)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "HE007" {
		return fmt.Errorf("the same job was acknowledged twice: %v", err)
	}
	fmt.Println("rolled back:", refused.Message)
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
