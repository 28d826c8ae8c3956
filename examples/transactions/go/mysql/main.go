// An order and its mail: each in one transaction with the job that it belongs to, in MySQL or MariaDB.
//
// DATABASE_URL=mysql://… HENCE_SERVER=http://127.0.0.1:7070 go run ./mysql
package main

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

const orders = `CREATE TABLE IF NOT EXISTS orders
	(id int PRIMARY KEY, mailed boolean NOT NULL DEFAULT false, mails int NOT NULL DEFAULT 0)`

var errChangedMind = errors.New("changed my mind")

// connect takes mysql://user:password@host:port/database.
func connect(address string) (*sql.DB, error) {
	read, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User = "tcp", read.Host, read.User.Username()
	config.Passwd, _ = read.User.Password()
	config.DBName = strings.TrimPrefix(read.Path, "/")
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// transaction commits what work did, or rolls it back when it fails.
func transaction(db *sql.DB, work func(*sql.Tx) error) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// placeOrder writes an order and the job that mails about it; both count when the caller commits.
func placeOrder(tx *sql.Tx, order int) error {
	if _, err := tx.Exec("INSERT INTO orders (id) VALUES (?)", order); err != nil {
		return err
	}
	job, err := json.Marshal(map[string]any{
		"queue": "mail", "id": fmt.Sprint("order-", order), "payload": map[string]int{"order": order},
	})
	if err != nil {
		return err
	}
	_, err = tx.Exec("CALL hence_add(?)", string(job))
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
func mail(db *sql.DB, job json.RawMessage) error {
	var read struct{ Payload struct{ Order int } }
	if err := json.Unmarshal(job, &read); err != nil {
		return err
	}
	return transaction(db, func(tx *sql.Tx) error {
		update := "UPDATE orders SET mailed = true, mails = mails + 1 WHERE id = ?"
		if _, err := tx.Exec(update, read.Payload.Order); err != nil {
			return err
		}
		_, err := tx.Exec("CALL hence_ack(?, NULL)", string(job))
		return err
	})
}

func run() error {
	db, err := connect(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec(orders); err != nil {
		return err
	}
	if err := transaction(db, func(tx *sql.Tx) error { return placeOrder(tx, 1) }); err != nil {
		return err
	}
	// An error rolls back: neither order 2 nor its job was ever there.
	err = transaction(db, func(tx *sql.Tx) error {
		if err := placeOrder(tx, 2); err != nil {
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
	if err := mail(db, job); err != nil {
		return err
	}
	err = mail(db, job)
	var refused *mysql.MySQLError
	if !errors.As(err, &refused) || refused.Number != 1644 {
		return fmt.Errorf("the same job was acknowledged twice: %v", err)
	}
	fmt.Println("rolled back:", refused.Message)
	return nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
