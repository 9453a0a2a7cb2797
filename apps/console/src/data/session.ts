/**
 * Who the requests are from: an API key, which session storage keeps for this tab alone until the tab is closed; or, where
 * people sign in by an issuer, a cookie of the server, which no script can read.
 */
import { BASE_PATH } from "./base.js";

const STORED = "leasehold.key";

/** Where to sign in by an issuer, relative to the console's root; null: only with keys. */
export const SIGN_IN =
  document.querySelector<HTMLMetaElement>('meta[name="leasehold-sign-in"]')?.content ?? null;

/** What the server says of a sign-in that has failed, in the fragment of the URL. */
const FAILURES: Readonly<Record<string, string>> = {
  refused: "The issuer refused the sign-in.",
  late: "The sign-in took too long, or began in another browser. Try again.",
  "no-access": "Your account has no role on this server. Ask its operator for one.",
  failed: "The sign-in failed. The log of the server has the reason.",
};

function failureInUrl(): string | null {
  const [, code = ""] = /^#sign-in=([\w-]+)$/.exec(location.hash) ?? [];
  if (code === "") return null;
  history.replaceState(history.state, "", location.pathname + location.search);
  return FAILURES[code] ?? FAILURES["failed"] ?? null;
}

type State = { readonly key: string | null; readonly refusal: string | null };

let state: State = { key: sessionStorage.getItem(STORED), refusal: failureInUrl() };
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
  /** Ends a session of an issuer, and begins again without what this page has read. */
  async endSession(): Promise<void> {
    await fetch(`${BASE_PATH}/session/sign-out`, { method: "POST" });
    location.assign(`${BASE_PATH}/`);
  },
  /** The server requires a key, or rejects this one. */
  refused: (why = "This server requires an API key.") => {
    // What a sign-in says is not replaced by the refusal of a request without one.
    if (state.key === null && state.refusal) return;
    change({ key: null, refusal: SIGN_IN === null || state.key !== null ? why : "" });
  },
};
