/**
 * What the suites say of a server and its client. What the rules decide is proven on the stores behind the server; this is
 * what crosses the wire once: each operation, each of its outcomes and fields, batches in their order, requests that are
 * repeated, errors, limits of size and time, cursors, notifications and the wait queue.
 */
import type { Chosen } from "./chosen-tests.js";

export const LEASE_WIRE: Chosen = {
  acquire: [
    "grants a free key, for what was asked or longer",
    "answers who holds a key that is taken",
    "answers a repeated request with the same grant",
    "answers `ended` to a repeated request after a release",
    "takes every ttl of its range, at both ends and between two steps",
  ],
  tokens: ["grow over the collection of ended records"],
  renew: [
    "extends a grant",
    "is refused after expiry, even without a new holder, and changes nothing",
    "is refused after a revoke, before and after others take over",
    "is refused after a release, and where nothing was ever granted",
  ],
  release: ["frees at once", "may be repeated"],
  revoke: [
    "finds nothing to revoke on a free key",
    "now frees at once",
    "at expiry refuses the holder but keeps others out while it may still trust its lease",
    "spares a grant with another token than expected",
  ],
  "lease ids": "all",
  batches: ["may be empty", "answer in the order of the requests, however large and mixed"],
  "large batches": "all",
  concurrency: ["one request sent 16 times at once makes one grant"],
  names: [
    "are kept apart and come back as they were",
    "with invisible characters are kept apart and come back, or are all refused",
    "of holders and metadata come back as they were",
  ],
  "get and list": [
    "show a live grant",
    "say how a grant ended, and show its successor as a new one",
    "are answered in the order of the keys, null where nothing was granted",
    "are the same in lists, ordered by the bytes of UTF-8",
    "are listed page by page, each once, names of 256 bytes too",
    "have 100 items a page by default",
    "are not listed after a cursor that no page has given",
    "are found by a prefix that is taken literally",
    "are left out of lists of live ones when ended",
    "are listed by their states, and by whether they were renewed",
    "and answers never give a lease id away",
  ],
  successors: [
    "show when they began and were renewed also after their end, as far as they are kept",
    "end their TTL after their grant, or after the renewal that leaves them most",
  ],
  watch: "all",
  "wait queue": [
    "serves waiters in the order of their arrival",
    "returns how many waiters are ahead, and keeps the position of a waiter that polls",
    "keeps the position of a waiter that attempts again, for as long as its last attempt says",
    "drops the position of a waiter that stops polling or releases",
    "tells a waiter when to attempt: after the grant, and the reservations of those ahead",
    "wakes only the head of the queue",
  ],
  "the rules as a model": ["holds for random commands on grants that outlive them"],
  close: "all",
};

export const TASK_WIRE: Chosen = {
  "limits of time": [
    "lets no lease outlive maxRunMs and the grace of its claim",
    "holds a task for six seconds after maxRunMs by default",
    "expires a task that has not begun in time",
    "puts a task off, and counts no failure",
  ],
  enqueue: [
    "adds a pending task with all that it was given",
    "adds nothing when an id comes again, whatever has become of the task",
    "refuses an id that comes again with another content, whatever has become of the task",
    "keeps at most one unfinished task per kind and dedupeKey",
    "adds one id once, however many callers send it at once",
    "adds many tasks by one call, in any order of ids",
    "keeps any text as an id, and claims and lists in the order of the calls",
    "throws at an id that no task can have and a scheduledAt that is no time",
    "knows no task by an id that was never enqueued, UUID or not",
  ],
  claim: [
    "answers all that a worker needs",
    "shows who runs what",
    "leaves a task alone until it is due",
    "takes from the queues that it names, by their common order",
    "takes only the kinds that it names",
    "answers the same tasks when it is repeated",
    "is refused when another holder repeats it",
    "takes tasks once when copies of a claim arrive together",
    "renews by heartbeat: longer, never shorter",
  ],
  "expiry and reap": [
    "refuses a holder after its expiry, even without a new holder",
    "hands an expired task over, and refuses its former holder for ever",
    "refuses a right lease id with a wrong token, and the other way round",
  ],
  complete: "all",
  "fail and requeue": [
    "takes the worker's own delay, zero included",
    "is dead at once when the failure is final",
    "counts a failure once, however often it is reported",
    "keeps any text of an error that a database can keep",
    "requeues at once, counts nothing and keeps the queue position",
  ],
  "cancel and retry": [
    "cancels a pending task, again and again",
    "changes nothing about a task that is done or dead",
    "does not retry a running task",
    "starts a dead task over: counters at 0, attempts and tokens going on",
    "does not start a task over beside another unfinished one of its dedupeKey",
  ],
  delete: [
    "deletes a task that is not running, with its attempts, once",
    "leaves a running task alone",
    "decides each of a batch, and one that is named twice once",
  ],
  "tokens and attempts": [
    "returns the last attempts whose errors and progress have 1 MiB together",
    "keeps every attempt: who, which grant, when, how it ended",
    "keeps the progress of an attempt until the next one begins",
    "never shows a lease id",
  ],
  checkpoints: [
    "keeps the last checkpoint of a task, and returns it with later claims",
    "in a batch, keeps the last of each task",
  ],
  batches: ["answers in the order of the requests, good and bad ones mixed", "takes empty batches"],
  "large batches": ["end each attempt with its own result"],
  "concurrency keys": [
    "shows the key, the limit and the order that a task declares",
    "starts as many in a window as the newest task of the key declares",
    "names the keys that keep tasks back, and the tasks that those wait for",
    "names the keys of which the most tasks wait, and no more than asked",
  ],
  versions: [
    "keeps the version of a task, and returns it with every claim and view",
    "takes a version for each kind, and from several queues",
    "repeats a claim with the versions of its tasks",
  ],
  "limits and rates": [
    "shows who declared a limit last, and writes nothing when it is declared again",
    "keeps the newest limit, and none once it is removed",
    "starts at most so many tasks in a window, and says when the next one may begin",
  ],
  "limits of kinds and queues": [
    "of a kind and of a queue count apart, though both have one name",
    "name ten of the tasks that use them up, those that were added first",
    "notify those who wait when one is raised, and when one is removed",
  ],
  JSON: "all",
  "get, list and counts": "all",
  "large payloads": [
    "lists a large object by its beginning",
    "lists a long error by its beginning",
    "claims at most 16 MiB of data from 1 queue(s)",
    "returns at most 256 KiB of outputs to repeated completes",
  ],
  leases: [
    "lists every grant as a lease on its task, the newest first",
    "says when a grant began, was renewed, and ended or will end",
    "lists by state, and only what was renewed",
    "lists 100 by default, and ends exactly",
    "throws at a cursor that no page has given",
    "shows nothing of another namespace, and no lease id",
  ],
  watch: "all",
  results: "all",
  statistics: [
    "counts by queue and kind, within its filters",
    "counts only the versions that a claim takes, if it is asked for some",
    "tells how long the oldest has been due",
    "counts up to its limit of each state",
  ],
  close: "all",
};

/**
 * What two servers on one database may do wrong where one does not: each request goes to the other server than the one
 * before, so each of them finds, repeats, orders and notifies of what the other one has done.
 */
export const LEASES_OF_SEVERAL_SERVERS: Chosen = {
  acquire: ["answers a repeated request with the same grant"],
  renew: ["extends a grant", "is refused after a revoke, before and after others take over"],
  concurrency: [
    "64 acquirers at once: one wins, the others learn the holder",
    "one request sent 16 times at once makes one grant",
    "a crowd that takes turns is never inside together, and its tokens grow",
    "a locked record does not hold a call beyond its timeout",
  ],
  "get and list": ["are listed page by page, each once, names of 256 bytes too"],
  watch: [
    "notifies of a release and of a revoke that a waiter waits for",
    "delivers only its own namespace's events, to several readers at once",
  ],
  "wait queue": [
    "serves waiters in the order of their arrival",
    "wakes only the head of the queue",
    "wakes the second waiter when the holder and the first one release in one call",
  ],
  "the rules as a model": ["holds for random commands on grants that outlive them"],
  close: "all",
};

export const TASKS_OF_SEVERAL_SERVERS: Chosen = {
  enqueue: [
    "lets one of many concurrent callers add a dedupeKey",
    "adds one id once, however many callers send it at once",
    "keeps any text as an id, and claims and lists in the order of the calls",
  ],
  claim: [
    "answers the same tasks when it is repeated",
    "takes tasks once when copies of a claim arrive together",
    "renews by heartbeat: longer, never shorter",
  ],
  "expiry and reap": ["hands an expired task over, and refuses its former holder for ever"],
  complete: ["answers once `repeated: false` when copies arrive together"],
  batches: ["claims and reaps around a locked row"],
  concurrency: "all",
  "concurrency keys": ["never runs more of a key than its limit, for 10 claimers at once"],
  "limits and rates": [
    "notifies those who wait in any queue when a task of a limited kind ends",
    "never runs more than a limit, nor starts more than a rate, for 10 claimers at once",
  ],
  "get, list and counts": ["pages through everything once, while tasks are added"],
  watch: ["notifies of every way in which a task becomes claimable"],
  results: ["notifies of every way in which an awaited task ends"],
  "the rules as a model": "all",
  close: "all",
};

export const ONCE_WIRE: Chosen = {
  succeed: [
    "records a success, and ends the lease in the same step",
    "answers a repeated call of the same grant as the first one",
    "records nothing for a lease that has ended",
    "records nothing under a wrong secret, a wrong token or another key",
    "forgets a success after keepMs, and may then record another one",
  ],
  fail: [
    "counts failures, and ends the lease in the same step",
    "keeps of an error what a database can keep",
    "is failed after maxAttempts, until it is retried",
  ],
  list: "all",
  times: [
    "say of a success until when it is kept: keepMs after it",
    "of a repeated call are those of the first one",
  ],
  records: ["of names: each key comes back as it was, and alone"],
};

export const ONCE_OF_SEVERAL_SERVERS: Chosen = {
  succeed: [
    "answers a repeated call of the same grant as the first one",
    "records one of many calls at once",
  ],
  "the model": ["holds for random calls (seed 1)"],
};

export const SCHEDULE_WIRE: Chosen = {
  declaring: [
    "adds a schedule, and changes nothing when it is declared again",
    "keeps every field of a declaration",
    "removes a schedule, whose tasks stay",
    "lists by name, in pages",
  ],
  firing: [
    "makes tasks as the schedule says",
    "shows the beginning of a long error of its last task",
  ],
  operating: "all",
  "the tasks of schedules": [
    "have the version of their kind, and the key with its rate",
    "takes a declaration of the same content for the same, however it is written",
  ],
  "a tick": ["shows who paused a schedule and why, and nothing of an earlier pause"],
  list: "all",
};

export const SCHEDULES_OF_SEVERAL_SERVERS: Chosen = {
  declaring: ["adds a schedule, and changes nothing when it is declared again"],
  operating: ["runs now, paused or not, once for each id, and leaves the fire times"],
};
