/** The selected rows: toggled one by one, or as a range with Shift. */
import { useState } from "react";

export interface Selection {
  readonly ids: ReadonlySet<string>;
  /** @param upTo selects the range from the row that was toggled last */
  readonly toggle: (id: string, upTo: boolean) => void;
  readonly set: (ids: readonly string[]) => void;
}

/** @param shown the ids of the rows in order; ids that disappear from it are deselected */
export function useSelection(shown: readonly string[]): Selection {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [last, setLast] = useState<string>();
  const ids = new Set(shown.filter((id) => chosen.has(id)));
  const toggle = (id: string, upTo: boolean) => {
    const next = new Set(ids);
    const from = upTo && last !== undefined ? shown.indexOf(last) : -1;
    const to = shown.indexOf(id);
    if (from === -1) {
      if (!next.delete(id)) next.add(id);
    } else {
      const range = shown.slice(Math.min(from, to), Math.max(from, to) + 1);
      for (const one of range) next.add(one);
    }
    setLast(id);
    setChosen(next);
  };
  return { ids, toggle, set: (all) => setChosen(new Set(all)) };
}
