// Asynq: tasks with results, retries, delays, unique tasks, groups, a schedule, and the inspector.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}

func ensure(ok bool, format string, args ...any) {
	if !ok {
		must(fmt.Errorf(format, args...))
	}
}

func until(what string, ok func() bool) {
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		ensure(time.Now().Before(end), "never: %s", what)
	}
}

// Silent drops the log: tasks fail on purpose.
type silent struct{}

func (silent) Debug(...any)      {}
func (silent) Info(...any)       {}
func (silent) Warn(...any)       {}
func (silent) Error(...any)      {}
func (silent) Fatal(args ...any) { must(errors.New(fmt.Sprint(args...))) }

func main() {
	redis := asynq.RedisClientOpt{Addr: "127.0.0.1:" + os.Args[1], DB: 1}
	client := asynq.NewClient(redis)
	inspector := asynq.NewInspector(redis)
	var done, tries, ticks atomic.Int64
	var order []string
	var mutex sync.Mutex
	started := make(chan struct{})

	handlers := asynq.NewServeMux()
	handlers.HandleFunc("count", func(_ context.Context, task *asynq.Task) error {
		done.Add(1)
		_, err := task.ResultWriter().Write([]byte("counted " + string(task.Payload())))
		return err
	})
	handlers.HandleFunc("fails twice", func(context.Context, *asynq.Task) error {
		if tries.Add(1) < 3 {
			return errors.New("it fails on purpose")
		}
		return nil
	})
	handlers.HandleFunc("fails", func(context.Context, *asynq.Task) error {
		return fmt.Errorf("it fails on purpose: %w", asynq.SkipRetry)
	})
	handlers.HandleFunc("tick", func(context.Context, *asynq.Task) error {
		ticks.Add(1)
		return nil
	})
	handlers.HandleFunc("long", func(ctx context.Context, _ *asynq.Task) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	handlers.HandleFunc("together", func(_ context.Context, task *asynq.Task) error {
		mutex.Lock()
		defer mutex.Unlock()
		order = append(order, string(task.Payload()))
		return nil
	})
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency:              4,
		Queues:                   map[string]int{"critical": 6, "default": 1},
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond },
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		TaskCheckInterval:        20 * time.Millisecond,
		GroupGracePeriod:         time.Second,
		GroupMaxSize:             3,
		GroupAggregator: asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
			var all []byte
			for _, task := range tasks {
				all = append(all, task.Payload()...)
			}
			slices.Sort(all)
			return asynq.NewTask("together", all)
		}),
		Logger: silent{},
	})

	enqueue := func(kind, payload string, options ...asynq.Option) *asynq.TaskInfo {
		info, err := client.Enqueue(asynq.NewTask(kind, []byte(payload)), options...)
		must(err)
		return info
	}
	unique := asynq.NewTask("count", []byte("unique"))
	_, err := client.Enqueue(unique, asynq.Unique(time.Minute))
	must(err)
	_, err = client.Enqueue(unique, asynq.Unique(time.Minute))
	ensure(errors.Is(err, asynq.ErrDuplicateTask), "a unique task is queued twice: %v", err)
	enqueue("count", "named", asynq.TaskID("named"))
	_, err = client.Enqueue(asynq.NewTask("count", nil), asynq.TaskID("named"))
	ensure(errors.Is(err, asynq.ErrTaskIDConflict), "an id is given twice: %v", err)
	info, err := inspector.GetQueueInfo("default")
	must(err)
	ensure(info.Pending == 2 && info.Size == 2, "the queue has %d tasks, not 2", info.Pending)
	fmt.Println("ok: asynq queues unique tasks once")

	must(server.Start(handlers))
	kept := enqueue("count", "kept", asynq.Retention(time.Minute), asynq.Queue("critical"))
	for range 200 {
		enqueue("count", "many", asynq.Queue("critical"))
	}
	// It counts in whole seconds.
	begin := time.Now()
	late := enqueue("count", "late", asynq.ProcessIn(2*time.Second), asynq.Retention(time.Minute))
	enqueue("fails twice", "", asynq.MaxRetry(5))
	failed := enqueue("fails", "")
	until("all tasks run", func() bool { return done.Load() == 204 && tries.Load() == 3 })
	ensure(time.Since(begin) >= time.Second, "the delayed task runs too early")
	for _, id := range []struct{ queue, id, result string }{
		{"critical", kept.ID, "counted kept"}, {"default", late.ID, "counted late"},
	} {
		until("a result is kept", func() bool {
			info, err := inspector.GetTaskInfo(id.queue, id.id)
			return err == nil && info.State == asynq.TaskStateCompleted && string(info.Result) == id.result
		})
	}
	fmt.Println("ok: asynq runs, delays and retries tasks and keeps results")

	until("a failed task is archived", func() bool {
		archived, err := inspector.ListArchivedTasks("default")
		return err == nil && len(archived) == 1 && archived[0].ID == failed.ID
	})
	must(inspector.DeleteTask("default", failed.ID))
	scheduled := enqueue("count", "", asynq.ProcessIn(time.Hour))
	tasks, err := inspector.ListScheduledTasks("default")
	must(err)
	ensure(len(tasks) == 1 && tasks[0].ID == scheduled.ID, "%d tasks are scheduled, not 1", len(tasks))
	must(inspector.RunTask("default", scheduled.ID))
	until("a scheduled task runs early", func() bool { return done.Load() == 205 })
	must(inspector.PauseQueue("default"))
	enqueue("count", "")
	time.Sleep(300 * time.Millisecond)
	ensure(done.Load() == 205, "a paused queue runs its tasks")
	must(inspector.UnpauseQueue("default"))
	until("a queue goes on", func() bool { return done.Load() == 206 })
	long := enqueue("long", "", asynq.MaxRetry(0))
	<-started
	until("a cancelled task is archived", func() bool {
		must(inspector.CancelProcessing(long.ID))
		info, err := inspector.GetTaskInfo("default", long.ID)
		return err == nil && info.State == asynq.TaskStateArchived
	})
	servers, err := inspector.Servers()
	must(err)
	ensure(len(servers) == 1, "%d servers are there, not 1", len(servers))
	history, err := inspector.History("critical", 1)
	must(err)
	ensure(history[0].Processed == 201, "%d tasks are processed, not 201", history[0].Processed)
	fmt.Println("ok: asynq inspects, pauses, cancels and archives")

	for _, payload := range []string{"a", "b", "c", "d"} {
		enqueue("together", payload, asynq.Group("letters"))
	}
	until("groups run together", func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return len(order) == 2 && len(order[0]) == 3 && len(order[1]) == 1
	})
	scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{Logger: silent{}})
	_, err = scheduler.Register("@every 1s", asynq.NewTask("tick", nil))
	must(err)
	must(scheduler.Start())
	until("a repeated task runs twice", func() bool { return ticks.Load() >= 2 })
	until("the scheduler tells its entry", func() bool {
		entries, err := inspector.SchedulerEntries()
		return err == nil && len(entries) == 1
	})
	scheduler.Shutdown()
	server.Shutdown()
	fmt.Println("ok: asynq groups and repeats tasks")
	must(client.Close())
	must(inspector.Close())
}
