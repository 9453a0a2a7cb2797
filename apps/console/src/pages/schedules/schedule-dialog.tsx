/** Pauses, resumes, runs or removes a schedule, with a reason. */
import { useQueryClient } from "@tanstack/react-query";
import type { Schedule } from "leasehold/internal/wire";
import { type SubmitEvent, useState } from "react";
import { ApiError } from "../../data/api.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { ReasonField } from "../../ui/reason-field.js";
import { notify } from "../../ui/toast.js";
import { act, type ScheduleAction } from "./schedule-queries.js";

const TEXTS = {
  pause: {
    verb: "Pause",
    done: "paused",
    about: "It makes no tasks until it is resumed, whatever programs declare.",
  },
  resume: {
    verb: "Resume",
    done: "resumed",
    about: "It makes tasks from now on, and none for the fire times of its pause.",
  },
  run: {
    verb: "Run",
    done: "a task is enqueued",
    about: "A task is enqueued now, even if the last one is unfinished. The fire times stay.",
  },
  remove: {
    verb: "Remove",
    done: "removed",
    about: "It makes no more tasks. Those that it has made stay. A program may declare it again.",
  },
} as const;

interface Props {
  readonly action: ScheduleAction;
  readonly schedule: Schedule;
  readonly onClose: () => void;
}

export function ScheduleDialog({ action, schedule, onClose }: Props) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState<string>();
  const { verb, done, about } = TEXTS[action];
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    try {
      await act(action, schedule, reason);
      notify(`${schedule.name}: ${done}`);
      onClose();
    } catch (error) {
      setProblem(error instanceof ApiError ? `${error.message} (${error.code})` : String(error));
    } finally {
      for (const key of ["schedules", "tasks", "audit"]) {
        void queries.invalidateQueries({ queryKey: [key] });
      }
    }
  };
  return (
    <Dialog open onOpenChange={onClose} title={`${verb} ${schedule.name}?`} description={about}>
      <form onSubmit={(event) => void submit(event)} className="grid gap-4">
        <ReasonField reason={reason} onReason={setReason} required error={problem} rows={2} />
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={onClose}>
            Back
          </Button>
          <Button
            type="submit"
            look={action === "remove" ? "danger" : "primary"}
            disabled={reason.trim() === ""}
          >
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
