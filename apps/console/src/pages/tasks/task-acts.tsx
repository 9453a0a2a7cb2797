/** What operators do to tasks: each behind a dialog that says to how many, and asks why. */
import { useQueryClient } from "@tanstack/react-query";
import type { AdminOutcome } from "leasehold/internal/wire";
import { type SubmitEvent, useState } from "react";
import { api } from "../../data/api.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { ReasonField } from "../../ui/reason-field.js";
import { Failure } from "../../ui/states.js";
import { say } from "../../ui/toast.js";
import type { State } from "./task-queries.js";

export const ACTS = ["cancel", "retry", "delete"] as const;
export type Act = (typeof ACTS)[number];

/** In which states the server does it. */
export const ACT_STATES: Readonly<Record<Act, readonly State[]>> = {
  cancel: ["pending", "running"],
  retry: ["dead", "cancelled"],
  delete: ["done", "dead", "cancelled"],
};

const WORDS: Readonly<Record<Act, { verb: string; past: string; follows: string }>> = {
  cancel: {
    verb: "Cancel",
    past: "cancelled",
    follows: "Pending ones will not run. Running ones end at their holder's next heartbeat.",
  },
  retry: {
    verb: "Retry",
    past: "put back",
    follows: "They go back to their queue at once, and what they failed before is forgiven.",
  },
  delete: {
    verb: "Delete",
    past: "deleted",
    follows: "With their data, outputs and attempts, for ever. Only the audit keeps their ids.",
  },
};
export const verbOf = (act: Act): string => WORDS[act].verb;

export const tasksText = (count: number): string =>
  count === 1 ? "1 task" : `${count.toLocaleString("en")} tasks`;

interface Outcome {
  readonly changed: number;
  readonly others: number;
}

interface Props {
  readonly act: Act;
  /** How many, as it is said: `3 tasks`. */
  readonly what: string;
  /** More about which ones they are. */
  readonly about?: string | undefined;
  readonly reasonNeeded?: boolean;
  readonly run: (reason: string | undefined) => Promise<Outcome>;
  /** `done`: it was carried out, and not just closed. */
  readonly onClose: (done: boolean) => void;
}

export function ActDialog({ act, what, about, reasonNeeded = false, run, onClose }: Props) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const [asking, setAsking] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const { verb, past, follows } = WORDS[act];
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setAsking(true);
    setFailure(undefined);
    try {
      const { changed, others } = await run(reason.trim() || undefined);
      const kept = others > 0 ? `; ${others} were in a state that does not allow it` : "";
      say(`${tasksText(changed)} ${past}${kept}`, changed === 0);
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
          <p>{follows}</p>
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
          <Button type="submit" look={act === "retry" ? "primary" : "danger"} disabled={asking}>
            {asking ? "Asking the server…" : `${verb} ${what}`}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** So many ids travel in one request. */
const MOST_IDS = 1_000;

/** @throws ApiError */
export async function actOnIds(
  act: Act,
  ids: readonly string[],
  reason: string | undefined,
): Promise<Outcome> {
  let changed = 0;
  for (let from = 0; from < ids.length; from += MOST_IDS) {
    const outcomes = await api<readonly AdminOutcome[]>("POST", `/api/tasks/${act}`, {
      query: { reason },
      body: ids.slice(from, from + MOST_IDS),
    });
    changed += outcomes.filter(({ status }) => status === "ok").length;
  }
  return { changed, others: ids.length - changed };
}
