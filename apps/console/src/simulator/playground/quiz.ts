/** Questions for who has played: each with the reason of its answer. */
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
    question: "What is the time limit of a lease good for?",
    choices: [
      { id: "load", text: "It keeps the number of requests to the store small" },
      {
        id: "dead",
        text: "It lets another process lead when the holder can no longer speak for itself",
      },
      { id: "fair", text: "It lets every process lead for the same time" },
      { id: "order", text: "It puts the writes of different leaders in order" },
    ],
    right: "dead",
    explanation:
      "A dead holder cannot give anything back. Without a limit its lease would stay for ever; with one it is free after that time at the latest.",
  },
  {
    id: "late",
    question:
      "A leader stands still for longer than its lease, another is elected, and the first one goes on. What keeps it from doing harm?",
    choices: [
      { id: "told", text: "The store tells it that it has been replaced, before it goes on" },
      { id: "self", text: "It looks at its clock before each write" },
      { id: "token", text: "Its writes carry an old token, and what it writes to refuses that" },
      { id: "wait", text: "The new leader waits until the old one has confirmed" },
    ],
    right: "token",
    explanation:
      "It may be stopped between any look and the write that follows, so no check on its own side is enough. Whatever is written to must remember the largest token and refuse smaller ones.",
  },
  {
    id: "where",
    question: "Where does such an election usually get its lease from?",
    choices: [
      { id: "own", text: "From a consensus cluster that is set up for the election alone" },
      {
        id: "present",
        text: "From a consistent store that is there anyway: a database, etcd, or the API of Kubernetes",
      },
      { id: "peers", text: "From the processes themselves, which vote by broadcast" },
      { id: "disk", text: "From a file on the disk of the first process" },
    ],
    right: "present",
    explanation:
      "One record with one atomic comparison is all it takes, so it pays to use what is already run, watched and backed up.",
  },
  {
    id: "renewal",
    question: "A renewal got no answer. What does its holder know?",
    choices: [
      { id: "lost", text: "The lease is lost: it must stop at once" },
      { id: "kept", text: "The lease is extended: the request was sent in time" },
      {
        id: "old",
        text: "Only what it knew before: it may go on until the old time is over, and tries again",
      },
    ],
    right: "old",
    explanation:
      "The request or its answer may have been lost. Neither outcome may be assumed, so trust is not extended, and what was promised before still stands.",
  },
  {
    id: "retry",
    question: "Why does a process that repeats its request for the lease use the same lease id?",
    choices: [
      { id: "known", text: "So that the store recognizes the request and does not grant twice" },
      { id: "line", text: "So that it is served before all others" },
      { id: "secret", text: "So that nobody else can read the answer" },
    ],
    right: "known",
    explanation:
      "If the first request was granted and its answer lost, the second one is answered with that very grant: the same token, and what is left of its time. A new id would have to wait for its own lost lease.",
  },
  {
    id: "choose",
    question:
      "Leaders are sometimes paused for 4 s, and a fail-over may take 15 s. Which lease time fits?",
    choices: [
      { id: "two", text: "2 s: a dead leader is replaced as soon as possible" },
      { id: "ten", text: "10 s, renewed about every 3 s" },
      { id: "sixty", text: "60 s: pauses do no harm at all" },
    ],
    right: "ten",
    explanation:
      "With 2 s every pause looks like a crash; with 60 s a real crash is noticed too late. 10 s outlives a pause of 4 s even just before a renewal, and a fail-over takes little more than 10 s.",
  },
];
