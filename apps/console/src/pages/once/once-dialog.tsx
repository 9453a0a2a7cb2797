/** Retries or deletes a key of `once`, with a reason. */
import type { OnceRecord } from "leasehold/internal/wire";
import { type ActionTexts, ReasonDialog } from "../../ui/reason-dialog.js";
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
} as const satisfies Record<string, ActionTexts>;

interface Props {
  readonly action: OnceAction;
  readonly record: OnceRecord;
  readonly onClose: () => void;
}

export function OnceDialog({ action, record, onClose }: Props) {
  return (
    <ReasonDialog
      name={record.key}
      texts={TEXTS[action]}
      isDangerous={action === "delete"}
      changes={["once"]}
      act={(reason) => act(action, record, reason)}
      onClose={onClose}
    />
  );
}
