// River. The settings are those of its own benchmark: two thousand workers, two milliseconds between
// two fetches. Scheduled jobs are looked for every five seconds; that cannot be set.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	producers = 4
	batch     = 1000
	workers   = 2000
)

type args struct {
	Text string `json:"text"`
}

func (args) Kind() string { return "bench" }

var payload = args{Text: strings.Repeat("x", 89)}

type handler struct {
	river.WorkerDefaults[args]
	due   time.Time
	done  atomic.Int64
	early atomic.Int64
	last  atomic.Int64
}

func (h *handler) Work(context.Context, *river.Job[args]) error {
	now := time.Now()
	if now.Before(h.due) {
		h.early.Add(1)
	}
	h.last.Store(now.UnixMilli())
	h.done.Add(1)
	return nil
}

func main() {
	ctx := context.Background()
	var numbers []int
	for _, text := range os.Args[2:] {
		number, err := strconv.Atoi(text)
		check(err)
		numbers = append(numbers, number)
	}
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	check(err)
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, config)
	check(err)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	check(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	check(err)
	hour := &river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)}
	switch os.Args[1] {
	case "singly":
		submit(open(pool, nil), numbers[0], numbers[1], func(client *river.Client[pgx.Tx]) int {
			_, err := client.Insert(ctx, payload, hour)
			check(err)
			return 1
		})
	case "batches":
		jobs := many(numbers[1], hour)
		submit(open(pool, nil), numbers[0], numbers[2], func(client *river.Client[pgx.Tx]) int {
			sent, err := client.InsertManyFast(ctx, jobs)
			check(err)
			return sent
		})
	case "work":
		work(ctx, pool, numbers[0], time.Time{})
	case "herd":
		lead := time.Duration(numbers[1])*time.Millisecond + time.Second
		work(ctx, pool, numbers[0], time.Now().Add(lead).Truncate(time.Second))
	}
}

func open(pool *pgxpool.Pool, handler *handler) *river.Client[pgx.Tx] {
	config := &river.Config{}
	if handler != nil {
		config.Workers = river.NewWorkers()
		river.AddWorker(config.Workers, handler)
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}}
		config.FetchCooldown = 2 * time.Millisecond
		config.FetchPollInterval = 20 * time.Millisecond
	}
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	check(err)
	return client
}

func many(size int, opts *river.InsertOpts) []river.InsertManyParams {
	jobs := make([]river.InsertManyParams, size)
	for i := range jobs {
		jobs[i] = river.InsertManyParams{Args: payload, InsertOpts: opts}
	}
	return jobs
}

func submit(client *river.Client[pgx.Tx], callers, millis int, send func(*river.Client[pgx.Tx]) int) {
	var sent atomic.Int64
	var all sync.WaitGroup
	started := time.Now()
	span := time.Duration(millis) * time.Millisecond
	for range callers {
		all.Go(func() {
			for time.Since(started) < span {
				sent.Add(int64(send(client)))
			}
		})
	}
	all.Wait()
	say(int(sent.Load()), time.Since(started), 0, 0)
}

func work(ctx context.Context, pool *pgxpool.Pool, count int, due time.Time) {
	handler := &handler{due: due}
	client := open(pool, handler)
	check(client.Start(ctx))
	started := time.Now()
	var opts *river.InsertOpts
	if !due.IsZero() {
		opts = &river.InsertOpts{ScheduledAt: due}
		started = due
	}
	var left atomic.Int64
	left.Store(int64(count))
	for range producers {
		go func() {
			for {
				after := left.Add(-batch)
				size := int(min(batch, after+batch))
				if size <= 0 {
					return
				}
				_, err := client.InsertManyFast(ctx, many(size, opts))
				check(err)
			}
		}()
	}
	for {
		time.Sleep(5 * time.Millisecond)
		if handler.done.Load() < int64(count) {
			continue
		}
		var open int
		row := pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE finalized_at IS NULL")
		check(row.Scan(&open))
		if open == 0 {
			break
		}
	}
	arrived := time.UnixMilli(handler.last.Load()).Sub(started)
	say(count, time.Since(started), arrived, int(handler.early.Load()))
}

func say(jobs int, took, arrived time.Duration, early int) {
	line, err := json.Marshal(map[string]any{
		"jobs": jobs, "seconds": took.Seconds(), "arrived": arrived.Seconds(), "early": early,
	})
	check(err)
	fmt.Println(string(line))
	os.Exit(0)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
