/** The bar above the list, with actions on the selected tasks or on all that match. */

import { useQuery } from "@tanstack/react-query";
import type { Task } from "leasehold/internal/wire";
import { Button } from "leasehold-ui";
import { useState } from "react";
import { whoQuery } from "../../data/who.js";
import { notifyFailure } from "../../ui/toast.js";
import { applyToMatching, countMatching, type Matching, statesFor } from "./bulk.js";
import type { Selection } from "./selection.js";
import {
  ACTION_STATES,
  ACTIONS,
  type Action,
  ActionDialog,
  applyToIds,
  tasksText,
  verbOf,
} from "./task-actions.js";
import type { TaskFilter } from "./task-queries.js";

interface Props {
  readonly filter: TaskFilter;
  /** A text filter is active. It applies in the browser alone, so actions on all matches are hidden. */
  readonly narrowed: boolean;
  readonly shown: readonly Task[];
  readonly selection: Selection;
}

type PendingAction =
  | { readonly action: Action; readonly ids: readonly string[] }
  | { readonly action: Action; readonly matching: Matching };

export function BulkBar({ filter, narrowed, shown, selection }: Props) {
  const control = useQuery(whoQuery).data?.control ?? false;
  const [asked, setAsked] = useState<PendingAction>();
  const [counting, setCounting] = useState(false);
  const selected = shown.filter(({ id }) => selection.ids.has(id));
  const all = shown.length > 0 && selected.length === shown.length;
  const allowed = (action: Action) =>
    selected.filter(({ state }) => ACTION_STATES[action].includes(state)).map(({ id }) => id);
  const askForAll = async (action: Action) => {
    setCounting(true);
    try {
      const matching = await countMatching(action, filter, AbortSignal.timeout(30_000));
      setAsked({ action, matching });
    } catch (error) {
      notifyFailure(error);
    } finally {
      setCounting(false);
    }
  };
  const close = (done: boolean) => {
    setAsked(undefined);
    if (done) selection.set([]);
  };
  return (
    <div className="flex min-h-12 flex-wrap items-center gap-x-3 gap-y-2 border-b px-4 py-2 text-sm">
      <label className="flex items-center gap-4 text-muted">
        <input
          type="checkbox"
          className="size-4 accent-(--accent)"
          checked={all}
          ref={(box) => {
            if (box) box.indeterminate = selected.length > 0 && !all;
          }}
          onChange={() => selection.set(all ? [] : shown.map(({ id }) => id))}
        />
        <span aria-live="polite">
          {selected.length > 0 ? `${selected.length} selected` : "Select all shown"}
        </span>
      </label>
      {selected.length > 0
        ? ACTIONS.filter((action) => action !== "delete" || control).map((action) => {
            const ids = allowed(action);
            return (
              ids.length > 0 && (
                <Button
                  key={action}
                  small
                  look={action === "delete" ? "danger" : "plain"}
                  onClick={() => setAsked({ action, ids })}
                >
                  {verbOf(action)} {ids.length}
                </Button>
              )
            );
          })
        : control &&
          !narrowed && (
            <span className="ml-auto flex flex-wrap items-center gap-2">
              <span className="text-xs text-muted">All matching tasks:</span>
              {ACTIONS.filter((action) => statesFor(action, filter.state).length > 0).map(
                (action) => (
                  <Button
                    key={action}
                    small
                    look={action === "delete" ? "danger" : "plain"}
                    disabled={counting}
                    onClick={() => void askForAll(action)}
                  >
                    {verbOf(action)} all
                  </Button>
                ),
              )}
            </span>
          )}
      {asked && "ids" in asked && (
        <ActionDialog
          action={asked.action}
          what={tasksText(asked.ids.length)}
          about={
            asked.ids.length < selected.length
              ? `The state of the other ${selected.length - asked.ids.length} selected tasks does not allow this.`
              : undefined
          }
          run={(reason) => applyToIds(asked.action, asked.ids, reason)}
          onClose={close}
        />
      )}
      {asked && "matching" in asked && (
        <ActionDialog
          action={asked.action}
          what={howMany(asked.matching)}
          about={whichOnes(asked.action, filter)}
          reasonNeeded
          run={(reason) => applyToMatching(asked.action, filter, asked.matching, reason ?? "")}
          onClose={close}
        />
      )}
    </div>
  );
}

const howMany = ({ count, more }: Matching) =>
  more ? `more than ${tasksText(count)}` : tasksText(count);

function whichOnes(action: Action, filter: TaskFilter): string {
  const states = statesFor(action, filter.state).join(" or ");
  const queue = filter.queue === undefined ? "" : `, queue ${filter.queue}`;
  const kind = filter.kind === undefined ? "" : `, kind ${filter.kind}`;
  return `All tasks that are ${states}${queue}${kind}, including those not shown.`;
}
