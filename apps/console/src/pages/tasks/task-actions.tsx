/** Operator actions on tasks. A dialog names the number of tasks and asks for a reason. */

import { useQueryClient } from "@tanstack/react-query";
import type { AdminOutcome } from "leasehold/internal/wire";
import { Button, Dialog } from "leasehold-ui";
import { type SubmitEvent, useState } from "react";
import { api } from "../../data/api.js";
import { ReasonField } from "../../ui/reason-field.js";
import { Failure } from "../../ui/states.js";
import { notify } from "../../ui/toast.js";
import type { State } from "./task-queries.js";

export const ACTIONS = ["cancel", "retry", "delete"] as const;
export type Action = (typeof ACTIONS)[number];

/** The states in which the server allows each action. */
export const ACTION_STATES: Readonly<Record<Action, readonly State[]>> = {
  cancel: ["pending", "running"],
  retry: ["dead", "cancelled", "expired"],
  delete: ["pending", "done", "dead", "cancelled", "expired"],
};

const WORDS: Readonly<Record<Action, { verb: string; past: string; effect: string }>> = {
  cancel: {
    verb: "Cancel",
    past: "cancelled",
    effect: "Pending tasks will not run. Running tasks end at their worker's next heartbeat.",
  },
  retry: {
    verb: "Retry",
    past: "requeued",
    effect: "The tasks are requeued at once, and their failure counts start over.",
  },
  delete: {
    verb: "Delete",
    past: "deleted",
    effect:
      "Deletes the tasks with their data, outputs and attempts. This cannot be undone. Only the audit log keeps their ids.",
  },
};
export const verbOf = (action: Action): string => WORDS[action].verb;

export const tasksText = (count: number): string =>
  count === 1 ? "1 task" : `${count.toLocaleString("en")} tasks`;

interface Outcome {
  readonly changed: number;
  readonly others: number;
  /** Not retried, because the tenant would have more tasks at once than it may. */
  readonly overLimit?: number;
}

interface Props {
  readonly action: Action;
  /** The number of tasks as text: `3 tasks`. */
  readonly what: string;
  /** Which tasks they are. */
  readonly about?: string | undefined;
  readonly reasonNeeded?: boolean;
  readonly run: (reason: string | undefined) => Promise<Outcome>;
  /** @param done the action was carried out; false if the dialog was only closed */
  readonly onClose: (done: boolean) => void;
}

export function ActionDialog({ action, what, about, reasonNeeded = false, run, onClose }: Props) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const [asking, setAsking] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const { verb, past, effect } = WORDS[action];
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setAsking(true);
    setFailure(undefined);
    try {
      const { changed, others, overLimit = 0 } = await run(reason.trim() || undefined);
      const limited =
        overLimit > 0 ? `; ${overLimit} not retried: the limit of tasks is reached` : "";
      const kept = others > 0 ? `; ${others} skipped because of their state` : "";
      notify(`${tasksText(changed)} ${past}${kept}${limited}`, changed === 0);
      onClose(true);
    } catch (error) {
      setFailure(error);
    } finally {
      setAsking(false);
      void queries.invalidateQueries({ queryKey: ["tasks"] });
    }
  };
  return (
    <Dialog
      open
      onOpenChange={() => onClose(false)}
      title={`${verb} ${what}?`}
      description={
        <>
          {about && <p className="mb-1 text-ink">{about}</p>}
          <p>{effect}</p>
        </>
      }
    >
      <form onSubmit={(event) => void submit(event)} className="grid gap-4">
        <ReasonField
          label={reasonNeeded ? "Reason" : "Reason (optional)"}
          reason={reason}
          onReason={setReason}
          required={reasonNeeded}
        />
        {failure !== undefined && <Failure error={failure} />}
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={() => onClose(false)}>
            Back
          </Button>
          <Button type="submit" look={action === "retry" ? "primary" : "danger"} disabled={asking}>
            {asking ? "Sending…" : `${verb} ${what}`}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** How many ids one request may carry. */
const MOST_IDS = 1_000;

/** @throws ApiError */
export async function applyToIds(
  action: Action,
  ids: readonly string[],
  reason: string | undefined,
): Promise<Outcome> {
  let changed = 0;
  for (let from = 0; from < ids.length; from += MOST_IDS) {
    const outcomes = await api<readonly AdminOutcome[]>("POST", `/api/tasks/${action}`, {
      query: { reason },
      body: ids.slice(from, from + MOST_IDS),
    });
    changed += outcomes.filter(({ status }) => status === "ok").length;
  }
  return { changed, others: ids.length - changed };
}
