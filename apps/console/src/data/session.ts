/**
 * The API key of the requests. Session storage keeps it for this tab alone, until the tab is closed.
 */
const STORED = "leasehold.key";

type State = { readonly key: string | null; readonly refusal: string | null };

let state: State = { key: sessionStorage.getItem(STORED), refusal: null };
const listeners = new Set<() => void>();

function change(next: State): void {
  state = next;
  if (next.key === null) sessionStorage.removeItem(STORED);
  else sessionStorage.setItem(STORED, next.key);
  for (const listener of listeners) listener();
}

export const session = {
  key: () => state.key,
  snapshot: () => state,
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  signIn: (key: string) => change({ key, refusal: null }),
  signOut: () => change({ key: null, refusal: "" }),
  /** The server requires a key, or rejects this one. */
  refused: (why = "This server requires an API key.") => change({ key: null, refusal: why }),
};
