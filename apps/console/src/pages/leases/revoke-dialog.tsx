/** Revokes the grant that the operator saw, and no later one, with a reason. */

import { useQueryClient } from "@tanstack/react-query";
import type { GrantRecord, RevokeOutcome } from "leasehold/internal/wire";
import { Button, classNames, Dialog, durationText, Token } from "leasehold-ui";
import { type SubmitEvent, useId, useState } from "react";
import { ApiError, api } from "../../data/api.js";
import { ReasonField } from "../../ui/reason-field.js";
import { notify } from "../../ui/toast.js";

type Free = "atExpiry" | "now";

const CHOICES: readonly { readonly free: Free; readonly name: string; readonly about: string }[] = [
  {
    free: "atExpiry",
    name: "Free at its expiry",
    about:
      "Renewals are refused from now on. The lease stays blocked while the holder may still work.",
  },
  {
    free: "now",
    name: "Free now",
    about:
      "The next contender can acquire it at once, while the old holder may still be working. Only resources that check fencing tokens are protected from its writes.",
  },
];

interface Props {
  readonly resource: string;
  /** The grant when the dialog was opened. */
  readonly grant: GrantRecord;
  /** The token of the current grant. */
  readonly currentToken: number;
  readonly onClose: () => void;
}

export function RevokeDialog({ resource, grant, currentToken, onClose }: Props) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const [free, setFree] = useState<Free>(grant.state === "revoked" ? "now" : "atExpiry");
  const [problem, setProblem] = useState<string>();
  const [asking, setAsking] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setAsking(true);
    try {
      const refused = await revoke(resource, grant.token, free, reason);
      setProblem(refused);
      if (refused === undefined) onClose();
    } catch (error) {
      setProblem(error instanceof ApiError ? `${error.message} (${error.code})` : String(error));
    } finally {
      setAsking(false);
      for (const key of ["resource", "leases", "audit"]) {
        void queries.invalidateQueries({ queryKey: [key] });
      }
    }
  };
  const isOther = currentToken !== grant.token;
  return (
    <Dialog open onOpenChange={onClose} title={`Revoke ${resource}?`}>
      <form onSubmit={(event) => void submit(event)} className="grid gap-4">
        <dl className="grid grid-cols-[auto_1fr] items-center gap-x-4 gap-y-1.5 rounded-lg bg-sunken px-3 py-2.5 text-sm">
          <dt className="text-muted">Holder</dt>
          <dd className="min-w-0 truncate font-medium">{grant.holder}</dd>
          <dt className="text-muted">Expected token</dt>
          <dd>
            <Token token={grant.token || null} />
          </dd>
        </dl>
        <FreeChoice free={free} choose={setFree} />
        <ReasonField reason={reason} onReason={setReason} required rows={2} />
        {(problem ?? isOther) && (
          <p role="alert" className="rounded-lg bg-danger-soft px-3 py-2 text-sm text-danger">
            {problem ??
              `The lease has a newer grant with token ${currentToken}. The server will refuse to revoke this one.`}
          </p>
        )}
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" look="danger" disabled={asking || reason.trim() === ""}>
            {asking ? "Revoking…" : "Revoke"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function FreeChoice({
  free,
  choose,
}: {
  readonly free: Free;
  readonly choose: (free: Free) => void;
}) {
  const id = useId();
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1.5 text-sm font-medium">When the lease becomes free</legend>
      {CHOICES.map((choice) => (
        <label
          key={choice.free}
          htmlFor={`${id}-${choice.free}`}
          className={classNames(
            "flex cursor-pointer items-start gap-2.5 rounded-lg border px-3 py-2.5 text-sm",
            free === choice.free &&
              (choice.free === "now"
                ? "border-danger bg-danger-soft"
                : "border-accent bg-accent-soft"),
          )}
        >
          <input
            id={`${id}-${choice.free}`}
            type="radio"
            name={id}
            className="mt-1 accent-accent"
            aria-describedby={`${id}-${choice.free}-about`}
            checked={free === choice.free}
            onChange={() => choose(choice.free)}
          />
          <span>
            <span className="font-medium">{choice.name}</span>
            <span
              id={`${id}-${choice.free}-about`}
              className={classNames(
                "block text-xs",
                free === choice.free && choice.free === "now" ? "text-danger" : "text-muted",
              )}
            >
              {choice.about}
            </span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

/** Revokes a grant. Returns a message if it was not revoked. */
async function revoke(
  resource: string,
  token: number,
  free: Free,
  reason: string,
): Promise<string | undefined> {
  // A store without tokens reports token 0, which the request cannot expect.
  const expected = token > 0 ? { expectedToken: token } : {};
  const [outcome] = await api<readonly RevokeOutcome[]>("POST", "/v1/leases/revoke", {
    body: [{ resource, reason, free, ...expected }],
  });
  switch (outcome?.status) {
    case "revoked":
      notify(
        outcome.freeInMs > 0
          ? `${resource} is revoked and free within ${durationText(outcome.freeInMs)}`
          : `${resource} is revoked and free`,
      );
      return undefined;
    case "otherToken":
      return `Nothing was revoked: token ${token} is not the current one. Another holder has the lease.`;
    case "notHeld":
      return "Nothing was revoked: the lease is no longer held.";
    case "failed":
      return outcome.applied === "maybe"
        ? `The lease may have been revoked: ${outcome.error.message}`
        : `Nothing was revoked: ${outcome.error.message}`;
    case undefined:
      return "The server returned no result. Check the state of the lease.";
  }
}
