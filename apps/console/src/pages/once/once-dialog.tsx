/** Retries or deletes a key of `once`, with a reason. */
import { useQueryClient } from "@tanstack/react-query";
import type { OnceRecord } from "leasehold/internal/wire";
import { type SubmitEvent, useState } from "react";
import { ApiError } from "../../data/api.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { ReasonField } from "../../ui/reason-field.js";
import { notify } from "../../ui/toast.js";
import { act, type OnceAction } from "./once-queries.js";

const TEXTS = {
  retry: {
    verb: "Retry",
    done: "the next caller tries again",
    about: "The failures of the key are forgotten. The next caller of the key tries again.",
  },
  delete: {
    verb: "Delete",
    done: "its record is deleted",
    about:
      "The record is deleted, whatever it says. The work of the key runs again at its next call, even if it has succeeded.",
  },
} as const;

interface Props {
  readonly action: OnceAction;
  readonly record: OnceRecord;
  readonly onClose: () => void;
}

export function OnceDialog({ action, record, onClose }: Props) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState<string>();
  const { verb, done, about } = TEXTS[action];
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    try {
      await act(action, record, reason);
      notify(`${record.key}: ${done}`);
      onClose();
    } catch (error) {
      setProblem(error instanceof ApiError ? `${error.message} (${error.code})` : String(error));
    } finally {
      for (const key of ["once", "audit"]) void queries.invalidateQueries({ queryKey: [key] });
    }
  };
  return (
    <Dialog open onOpenChange={onClose} title={`${verb} ${record.key}?`} description={about}>
      <form onSubmit={(event) => void submit(event)} className="grid gap-4">
        <ReasonField reason={reason} onReason={setReason} required error={problem} rows={2} />
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={onClose}>
            Back
          </Button>
          <Button
            type="submit"
            look={action === "delete" ? "danger" : "primary"}
            disabled={reason.trim() === ""}
          >
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
