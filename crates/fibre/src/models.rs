//! Models of scheduling and waking, for the Shuttle model checker (`cargo xtask models`): tests of
//! the production scheduling code, with fibres that have no stacks. The checker runs each model
//! many times, and each time chooses another order of the threads' accesses to atomics and locks
//! (an *interleaving*). If a wake-up is lost, a thread of the model waits for ever, and the checker
//! reports a deadlock. The checker does not detect missing fences (`sync.rs`).

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use shuttle::sync::Condvar;
use shuttle::thread;

use crate::channel::channel;
use crate::fibre::{Fibre, Ready, Record};
use crate::idle::IdleProcessors;
use crate::join::packet;
use crate::mutex;
use crate::permit::Permit;
use crate::processor::{Driver, exchange, next};
use crate::scheduler::{AnyRunQueues, RunQueues, Scheduler, TakeState};
use crate::semaphore::Semaphore;
use crate::shared::Anchor;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};
use crate::wait::{ListWaiter, WaitList};

const INTERLEAVINGS: usize = 2_000;
/// The number of interleavings of small models, in which the order of events to be checked is rare.
const SMALL_INTERLEAVINGS: usize = 10_000;
/// The time in ticks. It does not advance in a model.
const NOW: u64 = 1;
const PROCESSORS: usize = 2;

/// Runs a model with [`check_often`], with [`INTERLEAVINGS`] interleavings of each kind.
fn check(model: impl Fn() + Send + Sync + 'static) {
    check_often(INTERLEAVINGS, model);
}

/// Runs a model in `interleavings` random interleavings. Then runs it in the same number of
/// interleavings in which some threads are delayed for a long time (probabilistic concurrency
/// testing of depth 5).
fn check_often(interleavings: usize, model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let same_model = Arc::clone(&model);
    shuttle::check_random(move || model(), interleavings);
    shuttle::check_pct(move || same_model(), interleavings, 5);
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A counter. Threads of a model can wait until it has reached a value.
struct Count {
    count: Mutex<usize>,
    condition: Condvar,
}

impl Count {
    fn new() -> Self {
        Self {
            count: Mutex::new(0),
            condition: Condvar::new(),
        }
    }

    fn add(&self) {
        *lock(&self.count) += 1;
        self.condition.notify_all();
    }

    fn wait_for(&self, wanted: usize) {
        let mut count = lock(&self.count);
        while *count < wanted {
            count = self.condition.wait(count).unwrap();
        }
    }
}

/// The driver of a model's processor. It has no reactor and no timers: only wakers end a sleep.
struct ModelDriver<'a> {
    idle: &'a IdleProcessors,
    must_stop: &'a AtomicBool,
    number: usize,
}

impl Driver for ModelDriver<'_> {
    fn poll(&mut self) {}

    fn poll_completed(&mut self) -> usize {
        0
    }

    fn sleep(&mut self) {
        self.idle.event(self.number).wait();
    }

    fn after_sleep(&mut self) {}

    fn must_stop(&self) -> bool {
        self.must_stop.load(Ordering::Acquire)
    }
}

/// The code of all fibres of a model. It is called whenever a processor runs a fibre. Arguments: an
/// anchor (a reference to the runtime's shared state), the number of the processor, the fibre.
/// Returns the fibre if the fibre yields, and `None` if it has parked or ended.
type Run = dyn Fn(&Anchor, usize, Ready) -> Option<Ready> + Send + Sync;

/// The loop of a processor, as in `processor::run`.
fn run_processor<S: RunQueues>(scheduler: &S, anchor: &Anchor, number: usize, run: &Run) {
    let clock = Cell::new(NOW);
    let mut state = TakeState::new(number, &clock);
    let shared = &*anchor.shared;
    let mut driver = ModelDriver {
        idle: &shared.idle,
        must_stop: &shared.must_stop,
        number,
    };
    let mut exchanged = None;
    while let Some(ready) =
        exchanged.or_else(|| next(scheduler, &shared.idle, &mut state, &mut driver))
    {
        let still_ready = run(anchor, number, ready);
        exchanged = still_ready.map(|ready| exchange(scheduler, &shared.idle, &mut state, ready));
    }
}

fn processor(anchor: &Arc<Anchor>, number: usize, run: &Arc<Run>) -> thread::JoinHandle<()> {
    let (anchor, run) = (Arc::clone(anchor), Arc::clone(run));
    thread::spawn(move || match &anchor.shared.scheduler {
        AnyRunQueues::Fair(fair) => run_processor(fair, &anchor, number, &*run),
        AnyRunQueues::Steal(steal) => run_processor(steal, &anchor, number, &*run),
        AnyRunQueues::Global(global) => run_processor(&**global, &anchor, number, &*run),
    })
}

fn processors(anchor: &Arc<Anchor>, run: &Arc<Run>) -> Vec<thread::JoinHandle<()>> {
    let numbers = 0..PROCESSORS;
    numbers
        .map(|number| processor(anchor, number, run))
        .collect()
}

fn stop(anchor: &Anchor, processors: Vec<thread::JoinHandle<()>>) {
    anchor.shared.must_stop.store(true, Ordering::Release);
    for number in 0..processors.len() {
        anchor.shared.idle.wake(number);
    }
    join(processors);
}

/// Creates the record of a fibre without a stack.
fn record(anchor: &Arc<Anchor>, index: usize) -> Arc<Record> {
    let record = Record::new(Arc::clone(anchor), None);
    // A model does not use the registry, so this field holds the number of the fibre.
    record.registry_index.store(index as u32, Ordering::Relaxed);
    record
        .processor
        .store((index % PROCESSORS) as u32, Ordering::Relaxed);
    Arc::new(record)
}

/// Every fibre runs twice, and yields after its first run. In its second run, fibre 0 occupies its
/// processor until all other fibres have ended; they can end only if the other processor runs them.
/// The processor that runs fibre 1 makes fibre 3 ready. Threads outside the runtime make the other
/// fibres ready.
fn no_processor_sleeps_while_a_fibre_is_ready(kind: Scheduler) {
    const FIBRES: usize = 4;
    let anchor = Anchor::model(kind, PROCESSORS);
    let done = Arc::new(Count::new());
    let runs = [(); FIBRES].map(|()| AtomicUsize::new(0));
    let finished = Arc::clone(&done);
    let run: Arc<Run> = Arc::new(move |anchor, number, ready| {
        let index = ready.record().registry_index.load(Ordering::Relaxed) as usize;
        match runs[index].fetch_add(1, Ordering::Relaxed) {
            0 => {
                if index == 1 {
                    let another = Ready::new(record(&ready.record().anchor, FIBRES - 1));
                    let shared = &anchor.shared;
                    let origin = Some((number, NOW));
                    shared.scheduler.put(origin, another, &shared.idle);
                }
                Some(ready)
            }
            1 => {
                if index == 0 {
                    finished.wait_for(FIBRES - 1);
                }
                finished.add();
                None
            }
            _ => panic!("a fibre ran after its end"),
        }
    });
    let processors = processors(&anchor, &run);
    let external_threads = [vec![0, 1], vec![2]].map(|numbers| {
        let anchor = Arc::clone(&anchor);
        thread::spawn(move || {
            for index in numbers {
                let ready = Ready::new(record(&anchor, index));
                anchor.shared.schedule(ready);
            }
        })
    });
    done.wait_for(FIBRES);
    join(external_threads);
    stop(&anchor, processors);
}

#[test]
fn no_processor_sleeps_while_a_fibre_is_ready_fair() {
    check(|| no_processor_sleeps_while_a_fibre_is_ready(Scheduler::Fair));
}

#[test]
fn no_processor_sleeps_while_a_fibre_is_ready_steal() {
    check(|| no_processor_sleeps_while_a_fibre_is_ready(Scheduler::Steal));
}

#[test]
fn no_processor_sleeps_while_a_fibre_is_ready_global() {
    check(|| no_processor_sleeps_while_a_fibre_is_ready(Scheduler::Global));
}

/// Threads outside the runtime make two fibres ready. Fibre 0 occupies its processor until fibre 1
/// has run, so the other processor must run fibre 1.
fn no_fibre_waits_behind_a_fibre_that_does_not_yield(kind: Scheduler) {
    let anchor = Anchor::model(kind, PROCESSORS);
    let done = Arc::new(Count::new());
    let finished = Arc::clone(&done);
    let run: Arc<Run> = Arc::new(move |_, _, ready| {
        if ready.record().registry_index.load(Ordering::Relaxed) == 0 {
            finished.wait_for(1);
        }
        finished.add();
        None
    });
    let processors = processors(&anchor, &run);
    let external_threads = [0, 1].map(|index| {
        let anchor = Arc::clone(&anchor);
        thread::spawn(move || anchor.shared.schedule(Ready::new(record(&anchor, index))))
    });
    done.wait_for(2);
    join(external_threads);
    stop(&anchor, processors);
}

#[test]
fn no_fibre_waits_behind_a_fibre_that_does_not_yield_fair() {
    check_often(SMALL_INTERLEAVINGS, || {
        no_fibre_waits_behind_a_fibre_that_does_not_yield(Scheduler::Fair)
    });
}

#[test]
fn no_fibre_waits_behind_a_fibre_that_does_not_yield_steal() {
    check_often(SMALL_INTERLEAVINGS, || {
        no_fibre_waits_behind_a_fibre_that_does_not_yield(Scheduler::Steal)
    });
}

/// Two fibres yield several times, and so move between the lanes of one processor, while the other
/// processor searches the lanes. Then fibre 0 occupies its processor until fibre 1 has ended, so
/// the other processor must find fibre 1.
fn fibre_that_moves_between_lanes_is_found(kind: Scheduler) {
    const YIELDS: usize = 3;
    let anchor = Anchor::model(kind, PROCESSORS);
    let done = Arc::new(Count::new());
    let runs = [(); 2].map(|()| AtomicUsize::new(0));
    let finished = Arc::clone(&done);
    let run: Arc<Run> = Arc::new(move |_, _, ready| {
        let index = ready.record().registry_index.load(Ordering::Relaxed) as usize;
        if runs[index].fetch_add(1, Ordering::Relaxed) < YIELDS {
            return Some(ready);
        }
        if index == 0 {
            finished.wait_for(1);
        }
        finished.add();
        None
    });
    for index in 0..2 {
        let ready = Ready::new(record(&anchor, index));
        let shared = &anchor.shared;
        let (processor, idle) = (1, &shared.idle);
        shared.scheduler.put(Some((processor, NOW)), ready, idle);
    }
    let processors = processors(&anchor, &run);
    done.wait_for(2);
    stop(&anchor, processors);
}

#[test]
fn fibre_that_moves_between_lanes_is_found_fair() {
    check_often(SMALL_INTERLEAVINGS, || {
        fibre_that_moves_between_lanes_is_found(Scheduler::Fair)
    });
}

/// Processor 1 has announced itself as idle. Then two fibres are put in the lanes of processor 0,
/// in a way that wakes no processor. Processor 0 takes fibre 0, which occupies it until fibre 1 has
/// run. So processor 0 must wake processor 1 for fibre 1.
fn taking_a_fibre_wakes_an_idle_processor_for_the_next_fibre(kind: Scheduler) {
    let anchor = Anchor::model(kind, PROCESSORS);
    let done = Arc::new(Count::new());
    let finished = Arc::clone(&done);
    let run: Arc<Run> = Arc::new(move |_, number, ready| {
        if ready.record().registry_index.load(Ordering::Relaxed) == 0 && number == 0 {
            finished.wait_for(1);
        }
        finished.add();
        None
    });
    let other = processor(&anchor, 1, &run);
    while !anchor.shared.idle.has_any() {
        thread::yield_now();
    }
    // `put` gets a list in which no processor is idle, so it wakes none.
    let no_idle_processors = IdleProcessors::new(PROCESSORS).unwrap();
    for index in 0..2 {
        let ready = Ready::new(record(&anchor, index));
        let (scheduler, processor) = (&anchor.shared.scheduler, 0);
        scheduler.put(Some((processor, NOW)), ready, &no_idle_processors);
    }
    let processors = vec![processor(&anchor, 0, &run), other];
    done.wait_for(2);
    stop(&anchor, processors);
}

#[test]
fn taking_a_fibre_wakes_an_idle_processor_for_the_next_fibre_all_schedulers() {
    for kind in Scheduler::ALL {
        check(move || taking_a_fibre_wakes_an_idle_processor_for_the_next_fibre(kind));
    }
}

/// Each of two wakers does the following twice: it counts an event, and unparks the fibre. The
/// fibre parks until it has seen all events. The processors never run it at the same time.
fn no_wakeup_is_lost(kind: Scheduler) {
    const WAKERS: usize = 2;
    const TIMES: usize = 2;
    let anchor = Anchor::model(kind, PROCESSORS);
    let (done, events) = (Arc::new(Count::new()), Arc::new(AtomicUsize::new(0)));
    let (finished, seen) = (Arc::clone(&done), Arc::clone(&events));
    let is_running = AtomicBool::new(false);
    let run: Arc<Run> = Arc::new(move |_, _, ready| {
        assert!(
            !is_running.swap(true, Ordering::SeqCst),
            "two processors run the fibre"
        );
        while seen.load(Ordering::Relaxed) < WAKERS * TIMES {
            // As in `switch::park`.
            if !ready.record().permit.take() {
                is_running.store(false, Ordering::SeqCst);
                return ready.park();
            }
        }
        is_running.store(false, Ordering::SeqCst);
        finished.add();
        None
    });
    let fibre = Fibre {
        record: record(&anchor, 0),
    };
    let processors = processors(&anchor, &run);
    let wakers = [(); WAKERS].map(|()| {
        let (fibre, events) = (fibre.clone(), Arc::clone(&events));
        thread::spawn(move || {
            for _ in 0..TIMES {
                events.fetch_add(1, Ordering::Relaxed);
                fibre.unpark();
            }
        })
    });
    anchor
        .shared
        .schedule(Ready::new(Arc::clone(&fibre.record)));
    done.wait_for(1);
    join(wakers);
    stop(&anchor, processors);
    assert_eq!(Arc::strong_count(&fibre.record), 1, "the fibre leaked");
}

#[test]
fn no_wakeup_is_lost_fair() {
    check(|| no_wakeup_is_lost(Scheduler::Fair));
}

#[test]
fn no_wakeup_is_lost_steal() {
    check(|| no_wakeup_is_lost(Scheduler::Steal));
}

#[test]
fn no_wakeup_is_lost_global() {
    check(|| no_wakeup_is_lost(Scheduler::Global));
}

/// A fibre enters a wait list and waits. One thread grants its wait (lets it continue), and another
/// thread wakes it spuriously. The fibre continues exactly once: after its wait was granted, or
/// after it has removed itself from the list.
fn waiter_continues_once(kind: Scheduler) {
    let anchor = Anchor::model(kind, PROCESSORS);
    let (done, granted) = (Arc::new(Count::new()), Arc::new(AtomicUsize::new(0)));
    let wait_list = Arc::new(Mutex::new(WaitList::new()));
    let (finished, grants) = (Arc::clone(&done), Arc::clone(&granted));
    let fibres_list = Arc::clone(&wait_list);
    let entry = Mutex::new(None);
    let run: Arc<Run> = Arc::new(move |_, _, ready| {
        let mut entry = lock(&entry);
        let mut may_give_up = entry.is_some();
        let waiter = entry.get_or_insert_with(|| {
            let record = NonNull::from(&**ready.record());
            lock(&fibres_list).push(ListWaiter::Fibre(record))
        });
        // After a spurious wake-up the fibre removes itself from the list and gives up waiting. If
        // it is not in the list any more, it waits for the grant.
        while !waiter.is_granted() {
            if may_give_up && lock(&fibres_list).remove(waiter) {
                finished.add();
                return None;
            }
            // As in `switch::park`.
            if !ready.record().permit.take() {
                drop(entry);
                return ready.park();
            }
            may_give_up = true;
        }
        grants.fetch_add(1, Ordering::Relaxed);
        finished.add();
        None
    });
    let fibre = Fibre {
        record: record(&anchor, 0),
    };
    let processors = processors(&anchor, &run);
    let granter = {
        let wait_list = Arc::clone(&wait_list);
        thread::spawn(move || {
            let first = lock(&wait_list).pop();
            first.is_some_and(|first| {
                first.grant();
                true
            })
        })
    };
    let waker = {
        let fibre = fibre.clone();
        thread::spawn(move || (0..3).for_each(|_| fibre.unpark()))
    };
    anchor
        .shared
        .schedule(Ready::new(Arc::clone(&fibre.record)));
    let has_granted = granter.join().unwrap();
    waker.join().unwrap();
    if !has_granted {
        // The granter found the list empty. If the fibre has entered the list since, its wait is
        // granted here.
        let first = lock(&wait_list).pop();
        first.into_iter().for_each(ListWaiter::grant);
        fibre.unpark();
    }
    done.wait_for(1);
    stop(&anchor, processors);
    assert!(!has_granted || granted.load(Ordering::Relaxed) == 1);
    assert_eq!(Arc::strong_count(&fibre.record), 1, "the fibre leaked");
}

#[test]
fn waiter_continues_once_all_schedulers() {
    for kind in Scheduler::ALL {
        check(move || waiter_continues_once(kind));
    }
}

/// Tests the permit alone: three threads call `give`, and one thread parks. If it has parked,
/// `give` returns true to exactly one caller; otherwise to none.
#[test]
fn exactly_one_waker_schedules_a_parked_fibre() {
    check(|| {
        let permit = Arc::new(Permit::new());
        let (parked, taken) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let wakers = [(); 3].map(|()| {
            let (permit, taken) = (Arc::clone(&permit), Arc::clone(&taken));
            thread::spawn(move || {
                if permit.give() {
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let parker = {
            let parked = Arc::clone(&parked);
            let permit = Arc::clone(&permit);
            thread::spawn(move || {
                if !permit.take() && permit.park() {
                    parked.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        join(wakers);
        parker.join().unwrap();
        // If no waker came after the fibre had parked, the fibre is still parked, and the next
        // `give` returns true.
        let is_parked = parked.load(Ordering::Relaxed) > taken.load(Ordering::Relaxed);
        assert_eq!(permit.give(), is_parked);
        assert!(taken.load(Ordering::Relaxed) <= parked.load(Ordering::Relaxed));
    });
}

#[test]
fn join_returns_the_result() {
    check(|| {
        let (writer, reader) = packet();
        let fibre = thread::spawn(move || writer.fill(|| 7));
        assert_eq!(reader.wait().ok(), Some(7));
        fibre.join().unwrap();
    });
}

#[test]
fn semaphore_permit_has_one_holder_and_is_returned() {
    check(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let held = Arc::new(AtomicUsize::new(0));
        let takers = [false, true, true, false].map(|has_timeout| {
            let (semaphore, held) = (Arc::clone(&semaphore), Arc::clone(&held));
            thread::spawn(move || {
                let is_acquired = match has_timeout {
                    true => semaphore.acquire_timeout(std::time::Duration::ZERO),
                    false => {
                        semaphore.acquire();
                        true
                    }
                };
                if is_acquired {
                    assert_eq!(held.fetch_add(1, Ordering::Relaxed), 0, "two holders");
                    held.fetch_sub(1, Ordering::Relaxed);
                    semaphore.release();
                }
            })
        });
        join(takers);
        assert_eq!(semaphore.permits(), 1);
    });
}

#[test]
fn notify_all_wakes_every_waiter_of_a_condition() {
    check(|| {
        let shared = Arc::new((mutex::Mutex::new(0), mutex::Condition::new()));
        let waiters = [1, 2].map(|wanted| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut count = shared.0.lock();
                while *count < wanted {
                    count = shared.1.wait(count);
                }
            })
        });
        for _ in 0..2 {
            *shared.0.lock() += 1;
            shared.1.notify_all();
        }
        join(waiters);
    });
}

#[test]
fn every_sent_value_is_received_once() {
    check(|| {
        let (sender, receiver) = channel(1);
        let senders = [1, 2].map(|value| {
            let sender = sender.clone();
            thread::spawn(move || {
                sender.send(value).unwrap();
                sender.send(value).unwrap();
            })
        });
        drop(sender);
        let other = receiver.clone();
        let other = thread::spawn(move || {
            let mut sum = 0;
            while let Ok(value) = other.receive() {
                sum += value;
            }
            sum
        });
        let mut sum = 0;
        while let Ok(value) = receiver.receive() {
            sum += value;
        }
        assert_eq!(sum + other.join().unwrap(), 6);
        join(senders);
    });
}
