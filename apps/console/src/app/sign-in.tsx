import type { Whoami } from "leasehold/internal/wire";
import { Button } from "leasehold-ui";
import { type SubmitEvent, useState } from "react";
import { ApiError, get } from "../data/api.js";
import { BASE_PATH } from "../data/base.js";
import { SIGN_IN, session } from "../data/session.js";
import { Field, Input } from "../ui/field.js";

const KEY = /^lh_[0-9a-f]+_[0-9A-Za-z]+$/;

/** As the primary button. */
const LINK_BUTTON =
  "inline-flex h-9 items-center justify-center rounded-md bg-accent px-3 text-sm font-medium text-accent-ink hover:brightness-110";

/** This page, below the root of the console. */
function here(): string {
  return location.pathname.slice(BASE_PATH.length) + location.search;
}

/** @param refusal why the server requires a key; empty after a sign-out */
export function SignIn({ refusal }: { readonly refusal: string }) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState(refusal || undefined);
  const [asking, setAsking] = useState(false);
  const signIn = async (event: SubmitEvent) => {
    event.preventDefault();
    const text = key.trim();
    if (!KEY.test(text)) return setProblem("An API key has the form lh_<hex digits>_<hex digits>.");
    setAsking(true);
    try {
      await get<Whoami>("/v1/whoami", { headers: { authorization: `Bearer ${text}` } });
      session.signIn(text);
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    } finally {
      setAsking(false);
    }
  };
  return (
    <main className="grid min-h-dvh place-items-center p-4">
      <form
        onSubmit={(event) => void signIn(event)}
        className="grid w-full max-w-sm gap-4 rounded-xl border bg-raised p-6 shadow-raised"
      >
        <div>
          <h1 className="text-lg font-semibold">Leasehold</h1>
          <p className="mt-1 text-sm text-muted">
            {SIGN_IN === null ? "Sign in" : "Sign in with your account, or"} with an API key. The
            key stays in this tab until you close it.
          </p>
        </div>
        {SIGN_IN !== null && (
          <a href={`${SIGN_IN}?to=${encodeURIComponent(here())}`} className={LINK_BUTTON}>
            Sign in with your account
          </a>
        )}
        <Field
          label="API key"
          error={problem}
          help={
            <>
              Create one with <code>leasehold keys create --role viewer</code>
            </>
          }
        >
          {(ids) => (
            <Input
              {...ids}
              type="password"
              required
              autoFocus={SIGN_IN === null}
              placeholder="lh_…"
              value={key}
              onChange={({ target }) => setKey(target.value)}
            />
          )}
        </Field>
        <Button type="submit" look="primary" disabled={asking}>
          {asking ? "Signing in…" : "Sign in"}
        </Button>
      </form>
    </main>
  );
}
