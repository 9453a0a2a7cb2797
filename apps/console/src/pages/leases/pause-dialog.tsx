/** A resource that is granted to nobody, what makes it so, and what ends it. */
import { useQueryClient } from "@tanstack/react-query";
import type { Pause } from "leasehold/internal/wire";
import { type SubmitEvent, useState } from "react";
import { ApiError, api } from "../../data/api.js";
import { useMay } from "../../data/who.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { Icon } from "../../ui/icon.js";
import { ReasonField } from "../../ui/reason-field.js";
import { TimeText } from "../../ui/time.js";
import { say } from "../../ui/toast.js";

export type Paused = Pick<Pause, "kind" | "name">;

const nameOf = ({ kind, name }: Paused) =>
  kind === "resource" ? name : name === "" ? "all resources" : `all that begins with ${name}`;

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
        {pause.kind === "resource" ? "Paused" : `With ${nameOf(pause)}, paused`}: granted to nobody.
        Who has it keeps it. Reason: {pause.reason}{" "}
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
  readonly act: "pause" | "resume";
  readonly paused: Paused;
  readonly onClose: () => void;
}

export function PauseDialog({ act, paused, onClose }: Props) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState<string>();
  const { kind, name } = paused;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    try {
      if (act === "pause") await api("PUT", "/v1/pauses", { body: { kind, name, reason } });
      else await api("DELETE", "/v1/pauses", { query: { kind, name, reason } });
      say(act === "pause" ? `${name} is paused` : `${nameOf(paused)}: granted again`);
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
      title={act === "pause" ? `Pause ${name}?` : `Resume ${nameOf(paused)}?`}
      description={
        act === "pause"
          ? "Nobody is granted it until it is resumed; who waits goes on waiting. Who has it keeps it, and may renew."
          : "It is granted again, first to who waits for it."
      }
    >
      <form onSubmit={(event) => void submit(event)} className="grid gap-4">
        <ReasonField
          reason={reason}
          onReason={setReason}
          required={act === "pause"}
          error={problem}
          rows={2}
        />
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" look="primary">
            {act === "pause" ? "Pause" : "Resume"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
