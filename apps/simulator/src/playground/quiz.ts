/** The questions of the quiz, each with an explanation of the answer. */
import type { Choice } from "./experiments.js";

export interface QuizQuestion {
  readonly id: string;
  readonly question: string;
  readonly choices: readonly Choice[];
  /** The id of the right choice. */
  readonly right: string;
  readonly explanation: string;
}

export const QUIZ: readonly QuizQuestion[] = [
  {
    id: "ttl",
    question: "Why does a lease have a TTL?",
    choices: [
      { id: "load", text: "It limits the number of requests to the store" },
      {
        id: "dead",
        text: "It lets another process lead when the holder has crashed or is unreachable",
      },
      { id: "fair", text: "It lets every process lead for the same time" },
      { id: "order", text: "It orders the writes of different leaders" },
    ],
    right: "dead",
    explanation:
      "A crashed holder cannot release its lease. Without a TTL the lease would be held forever; with one it is free after that time at the latest.",
  },
  {
    id: "late",
    question:
      "A leader is paused for longer than its lease, another is elected, and the first one resumes. What prevents damage?",
    choices: [
      { id: "notified", text: "The store notifies it before it resumes" },
      { id: "self", text: "It checks its clock before each write" },
      { id: "token", text: "Its writes carry an old token, and the resource refuses them" },
      { id: "wait", text: "The new leader waits until the old one has confirmed" },
    ],
    right: "token",
    explanation:
      "A process can be paused between any check and the write that follows, so no check on its side is enough. The resource must remember the largest token and refuse smaller ones.",
  },
  {
    id: "where",
    question: "Which store does such an election usually use?",
    choices: [
      { id: "own", text: "A consensus cluster that is set up only for the election" },
      {
        id: "present",
        text: "A consistent store that already exists: a database, etcd, or the Kubernetes API",
      },
      { id: "peers", text: "None: the processes vote by broadcast" },
      { id: "disk", text: "A file on the disk of the first process" },
    ],
    right: "present",
    explanation:
      "An election needs one record and one atomic comparison, so use a store that you already run, monitor and back up.",
  },
  {
    id: "renewal",
    question: "A renewal got no answer. What does the holder know?",
    choices: [
      { id: "lost", text: "The lease is lost: it must stop at once" },
      { id: "kept", text: "The lease is extended: the request was sent in time" },
      {
        id: "old",
        text: "Only what it knew before: it may continue until the old expiry, and it retries",
      },
    ],
    right: "old",
    explanation:
      "Either the request or its answer was lost. The holder can assume neither outcome, so its trust is not extended, and the old expiry still applies.",
  },
  {
    id: "retry",
    question: "Why does a process retry its request for the lease with the same lease id?",
    choices: [
      { id: "known", text: "So that the store recognizes the request and grants only once" },
      { id: "line", text: "So that it is served before all others" },
      { id: "secret", text: "So that no other process can read the answer" },
    ],
    right: "known",
    explanation:
      "If the first request was granted but its answer was lost, the retry gets that same grant: the same token and the remaining time. With a new id the process would have to wait for its own lost lease.",
  },
  {
    id: "choose",
    question: "Leaders are sometimes paused for 4 s, and a failover may take 15 s. Which TTL fits?",
    choices: [
      { id: "two", text: "2 s: a crashed leader is replaced as soon as possible" },
      { id: "ten", text: "10 s, renewed about every 3 s" },
      { id: "sixty", text: "60 s: pauses do no harm at all" },
    ],
    right: "ten",
    explanation:
      "With 2 s every pause looks like a crash, and with 60 s a real crash is noticed too late. 10 s survives a pause of 4 s even just before a renewal, and a failover takes little more than 10 s.",
  },
];
