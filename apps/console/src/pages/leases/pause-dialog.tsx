/** The note about a paused resource, and the dialog that pauses or resumes it. */

import { useQueryClient } from "@tanstack/react-query";
import type { Pause } from "leasehold/internal/wire";
import { Button, Dialog, Icon } from "leasehold-ui";
import { type SubmitEvent, useState } from "react";
import { ApiError, api } from "../../data/api.js";
import { useMay } from "../../data/who.js";
import { ReasonField } from "../../ui/reason-field.js";
import { TimeText } from "../../ui/time.js";
import { notify } from "../../ui/toast.js";

export type Paused = Pick<Pause, "kind" | "name">;

const nameOf = ({ kind, name }: Paused) =>
  kind === "resource" ? name : name === "" ? "all resources" : `all resources with prefix ${name}`;

export function PauseNote({
  pause,
  onResume,
}: {
  readonly pause: Pause;
  readonly onResume: (pause: Paused) => void;
}) {
  const mayOperate = useMay("operate");
  return (
    <div
      role="status"
      className="mb-4 flex flex-wrap items-center gap-x-3 gap-y-2 rounded-xl bg-warn-soft px-4 py-2.5 text-sm"
    >
      <span className="text-warn">
        <Icon name="pause" />
      </span>
      <p className="min-w-0 flex-1 break-words">
        {pause.kind === "resource" ? "Paused" : `Paused with ${nameOf(pause)}`}: no new grants. A
        current holder keeps its lease. Reason: {pause.reason}{" "}
        <span className="text-xs whitespace-nowrap">
          ({pause.actor}, <TimeText at={pause.since} />)
        </span>
      </p>
      {mayOperate && (
        <Button small onClick={() => onResume(pause)}>
          Resume
        </Button>
      )}
    </div>
  );
}

interface Props {
  readonly action: "pause" | "resume";
  readonly paused: Paused;
  readonly onClose: () => void;
}

export function PauseDialog({ action, paused, onClose }: Props) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState<string>();
  const { kind, name } = paused;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    try {
      if (action === "pause") await api("PUT", "/v1/pauses", { body: { kind, name, reason } });
      else await api("DELETE", "/v1/pauses", { query: { kind, name, reason } });
      notify(action === "pause" ? `${name} is paused` : `Resumed ${nameOf(paused)}`);
      onClose();
    } catch (error) {
      setProblem(error instanceof ApiError ? `${error.message} (${error.code})` : String(error));
    } finally {
      for (const key of ["resource", "pauses", "audit"]) {
        void queries.invalidateQueries({ queryKey: [key] });
      }
    }
  };
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title={action === "pause" ? `Pause ${name}?` : `Resume ${nameOf(paused)}?`}
      description={
        action === "pause"
          ? "The store grants no new lease until you resume. Waiters keep waiting. A current holder keeps its lease and can renew it."
          : "The store grants leases again, starting with the first waiter."
      }
    >
      <form onSubmit={(event) => void submit(event)} className="grid gap-4">
        <ReasonField
          reason={reason}
          onReason={setReason}
          required={action === "pause"}
          error={problem}
          rows={2}
        />
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" look="primary">
            {action === "pause" ? "Pause" : "Resume"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
