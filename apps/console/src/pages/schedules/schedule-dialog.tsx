/** Pauses, resumes, runs or removes a schedule, with a reason. */
import type { Schedule } from "leasehold/internal/wire";
import { type ActionTexts, ReasonDialog } from "../../ui/reason-dialog.js";
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
    about:
      "A task is enqueued now, even if the last one is unfinished. The next fire times do not change.",
  },
  remove: {
    verb: "Remove",
    done: "removed",
    about:
      "It makes no more tasks. The tasks that it has made remain. A program may declare it again.",
  },
} as const satisfies Record<string, ActionTexts>;

interface Props {
  readonly action: ScheduleAction;
  readonly schedule: Schedule;
  readonly onClose: () => void;
}

export function ScheduleDialog({ action, schedule, onClose }: Props) {
  return (
    <ReasonDialog
      name={schedule.name}
      texts={TEXTS[action]}
      isDangerous={action === "remove"}
      changes={["schedules", "tasks"]}
      act={(reason) => act(action, schedule, reason)}
      onClose={onClose}
    />
  );
}
