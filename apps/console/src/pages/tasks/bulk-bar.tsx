/** Above the list: what is selected, and what can be done to that, or to all that match. */
import { useQuery } from "@tanstack/react-query";
import type { Task } from "leasehold/internal/wire";
import { useState } from "react";
import { whoQuery } from "../../data/who.js";
import { Button } from "../../ui/button.js";
import { sayFailure } from "../../ui/toast.js";
import { actOnMatching, countMatching, type Matching, statesFor } from "./bulk.js";
import type { Selection } from "./selection.js";
import { ACT_STATES, ACTS, type Act, ActDialog, actOnIds, tasksText, verbOf } from "./task-acts.js";
import type { TaskFilter } from "./task-queries.js";

interface Props {
  readonly filter: TaskFilter;
  /** Also by text, which the server does not know of. */
  readonly narrowed: boolean;
  readonly shown: readonly Task[];
  readonly selection: Selection;
}

type Asked =
  | { readonly act: Act; readonly ids: readonly string[] }
  | { readonly act: Act; readonly matching: Matching };

export function BulkBar({ filter, narrowed, shown, selection }: Props) {
  const control = useQuery(whoQuery).data?.control ?? false;
  const [asked, setAsked] = useState<Asked>();
  const [counting, setCounting] = useState(false);
  const selected = shown.filter(({ id }) => selection.ids.has(id));
  const all = shown.length > 0 && selected.length === shown.length;
  const fitting = (act: Act) =>
    selected.filter(({ state }) => ACT_STATES[act].includes(state)).map(({ id }) => id);
  const askForAll = async (act: Act) => {
    setCounting(true);
    try {
      const matching = await countMatching(act, filter, AbortSignal.timeout(30_000));
      setAsked({ act, matching });
    } catch (error) {
      sayFailure(error);
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
        ? ACTS.filter((act) => act !== "delete" || control).map((act) => {
            const ids = fitting(act);
            return (
              ids.length > 0 && (
                <Button
                  key={act}
                  small
                  look={act === "delete" ? "danger" : "plain"}
                  onClick={() => setAsked({ act, ids })}
                >
                  {verbOf(act)} {ids.length}
                </Button>
              )
            );
          })
        : control &&
          !narrowed && (
            <span className="ml-auto flex flex-wrap items-center gap-2">
              <span className="text-xs text-muted">All that match:</span>
              {ACTS.filter((act) => statesFor(act, filter.state).length > 0).map((act) => (
                <Button
                  key={act}
                  small
                  look={act === "delete" ? "danger" : "plain"}
                  disabled={counting}
                  onClick={() => void askForAll(act)}
                >
                  {verbOf(act)} all
                </Button>
              ))}
            </span>
          )}
      {asked && "ids" in asked && (
        <ActDialog
          act={asked.act}
          what={tasksText(asked.ids.length)}
          about={
            asked.ids.length < selected.length
              ? `The other ${selected.length - asked.ids.length} selected are in a state that does not allow it.`
              : undefined
          }
          run={(reason) => actOnIds(asked.act, asked.ids, reason)}
          onClose={close}
        />
      )}
      {asked && "matching" in asked && (
        <ActDialog
          act={asked.act}
          what={howMany(asked.matching)}
          about={whichOnes(asked.act, filter)}
          reasonNeeded
          run={(reason) => actOnMatching(asked.act, filter, asked.matching, reason ?? "")}
          onClose={close}
        />
      )}
    </div>
  );
}

const howMany = ({ count, more }: Matching) =>
  more ? `more than ${tasksText(count)}` : tasksText(count);

function whichOnes(act: Act, filter: TaskFilter): string {
  const states = statesFor(act, filter.state).join(" or ");
  const queue = filter.queue === undefined ? "" : `, queue ${filter.queue}`;
  const kind = filter.kind === undefined ? "" : `, kind ${filter.kind}`;
  return `All that are ${states}${queue}${kind}, shown here or not, as many as match now.`;
}
