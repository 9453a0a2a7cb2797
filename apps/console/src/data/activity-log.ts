/** The latest activity of the server. It records while the console is open, whichever page is shown. */
import type { Activity } from "leasehold/internal/wire";
import { activity } from "./live.js";
import { session } from "./session.js";

/** `seq` counts the events that this page has received, from 1. */
export type Logged = Activity & { readonly seq: number };

/** Bounds the memory: an event takes a few hundred bytes. */
const MOST = 5_000;

let entries: readonly Logged[] = [];
let lastSeq = 0;
const listeners = new Set<() => void>();
function change(next: readonly Logged[]): void {
  entries = next;
  for (const listener of listeners) listener();
}

activity.read((events) => {
  const from = events.findLastIndex(({ type }) => type === "resync");
  const fresh = events
    .slice(from + 1)
    .filter(({ type }) => type === "activity")
    .map(({ data }): Logged => ({ ...data, seq: ++lastSeq }));
  change([...(from === -1 ? entries : []), ...fresh].slice(-MOST));
});
let key = session.key();
session.subscribe(() => {
  // Another key may belong to another tenant.
  if (session.key() !== key) change([]);
  key = session.key();
});

export const activityLog = {
  /** Oldest first. */
  entries: () => entries,
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};
