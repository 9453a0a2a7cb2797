/** Asks for the reason of an operator action, and performs it. */

import { useQueryClient } from "@tanstack/react-query";
import { Button, Dialog } from "leasehold-ui";
import { type SubmitEvent, useState } from "react";
import { ApiError } from "../data/api.js";
import { ReasonField } from "./reason-field.js";
import { notify } from "./toast.js";

/** What an action says of itself. */
export interface ActionTexts {
  readonly verb: string;
  /** What has become of the thing, after its name. */
  readonly done: string;
  readonly about: string;
}

interface Props {
  readonly name: string;
  readonly texts: ActionTexts;
  readonly isDangerous: boolean;
  /** The queries whose results the action changes, besides the audit. */
  readonly changes: readonly string[];
  readonly act: (reason: string) => Promise<void>;
  readonly onClose: () => void;
}

export function ReasonDialog({ name, texts, isDangerous, changes, act, onClose }: Props) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState<string>();
  const { verb, done, about } = texts;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    try {
      await act(reason);
      notify(`${name}: ${done}`);
      onClose();
    } catch (error) {
      setProblem(error instanceof ApiError ? `${error.message} (${error.code})` : String(error));
    } finally {
      for (const key of [...changes, "audit"]) {
        void queries.invalidateQueries({ queryKey: [key] });
      }
    }
  };
  return (
    <Dialog open onOpenChange={onClose} title={`${verb} ${name}?`} description={about}>
      <form onSubmit={(event) => void submit(event)} className="grid gap-4">
        <ReasonField reason={reason} onReason={setReason} required error={problem} rows={2} />
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={onClose}>
            Back
          </Button>
          <Button
            type="submit"
            look={isDangerous ? "danger" : "primary"}
            disabled={reason.trim() === ""}
          >
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
