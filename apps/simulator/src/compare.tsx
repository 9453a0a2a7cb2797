/** Compares the counters of runs, to show what a choice of TTL and renewal interval costs and gains. */
import { Button, durationText, Icon, IconButton } from "leasehold-ui";
import { useState } from "react";
import { rowsOf } from "./counters.js";
import { type Counters, newScript, Playground, type Settings } from "./playground/index.js";
import { useCalmView } from "./use-player.js";

interface Kept {
  readonly id: number;
  readonly name: string;
  readonly settings: Settings;
  readonly atMs: number;
  readonly counters: Counters;
}

/** Each preset renews at about a third of the TTL. */
const PRESETS: readonly { name: string; settings: Partial<Settings> }[] = [
  { name: "Short TTL", settings: { ttlMs: 2_000, renewEveryMs: 600 } },
  { name: "Medium TTL", settings: { ttlMs: 10_000, renewEveryMs: 3_300 } },
  { name: "Long TTL", settings: { ttlMs: 30_000, renewEveryMs: 10_000 } },
];
const COMPARED_MS = 120_000;

let nextId = 1;
let keptRuns: readonly Kept[] = [];

export function Compare() {
  const { playground, frame } = useCalmView();
  // Module state, because the panel unmounts when another tab is shown.
  const [kept, setKept] = useState(keptRuns);
  const [busy, setBusy] = useState(false);
  const change = (next: readonly Kept[]) => {
    keptRuns = next.slice(-6);
    setKept(keptRuns);
  };
  const keep = () =>
    change([
      ...keptRuns,
      {
        id: nextId++,
        name: playground.scenario.title,
        settings: frame.settings,
        atMs: frame.atMs,
        counters: frame.counters,
      },
    ]);
  const runPresets = async () => {
    setBusy(true);
    const { scenario, seed, settings: own } = playground.script;
    try {
      for (const { name, settings } of PRESETS) {
        const script = newScript(scenario, { seed, settings: { ...own, ...settings } });
        const { counters, settings: used, atMs } = await new Playground(script).runTo(COMPARED_MS);
        change([...keptRuns, { id: nextId++, name, settings: used, atMs, counters }]);
      }
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="grid gap-3">
      <p className="text-sm text-muted">
        Save the counters of this run, change something, and save them again. Or run{" "}
        <b className="font-medium text-ink">{playground.scenario.title}</b> with three presets for{" "}
        {durationText(COMPARED_MS)} each.
      </p>
      <div className="flex flex-wrap gap-2">
        <Button small disabled={frame.atMs === 0} onClick={keep}>
          <Icon name="plus" size={14} /> Save this run
        </Button>
        <Button small disabled={busy} onClick={() => void runPresets()}>
          {busy ? "Running…" : "Compare three presets"}
        </Button>
        {kept.length > 0 && (
          <Button small look="quiet" onClick={() => change([])}>
            Clear
          </Button>
        )}
      </div>
      {kept.length > 0 && (
        <Table kept={kept} drop={(id) => change(keptRuns.filter((one) => one.id !== id))} />
      )}
    </div>
  );
}

function Table({
  kept,
  drop,
}: {
  readonly kept: readonly Kept[];
  readonly drop: (id: number) => void;
}) {
  const columns = kept.map((one) => ({ ...one, rows: rowsOf(one.counters, one.atMs) }));
  const names = columns[0]?.rows.map(({ name }) => name) ?? [];
  const cell = "px-1.5 py-1.5 text-right tabular whitespace-nowrap";
  const head = "w-20 py-1.5 pr-1 pl-2.5 text-left leading-tight";
  return (
    <div
      role="region"
      aria-label="Runs compared"
      tabIndex={0}
      className="overflow-x-auto rounded-lg border"
    >
      <table className="w-full text-xs">
        <thead>
          <tr className="border-b bg-sunken/60">
            <th scope="col" className={`${head} font-medium`}>
              Run
            </th>
            {columns.map(({ id, name, atMs }) => (
              <th key={id} scope="col" className={`${cell} font-medium`}>
                <span className="inline-flex items-center">
                  {name}
                  <IconButton
                    label={`Remove ${name}`}
                    className="-mr-1.5 h-6! w-6!"
                    onClick={() => drop(id)}
                  >
                    <Icon name="close" size={12} />
                  </IconButton>
                </span>
                <span className="block font-normal text-muted">{durationText(atMs)}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr className="border-b">
            <th scope="row" className={`${head} font-normal text-muted`}>
              TTL, renewal
            </th>
            {columns.map(({ id, settings }) => (
              <td key={id} className={cell}>
                {durationText(settings.ttlMs)}
                <span className="block">{durationText(settings.renewEveryMs)}</span>
              </td>
            ))}
          </tr>
          {names.map((name, row) => (
            <tr key={name} className="border-b last:border-b-0">
              <th scope="row" className={`${head} font-normal text-muted`}>
                {name}
              </th>
              {columns.map(({ id, rows }) => (
                <td key={id} className={`${cell} ${rows[row]?.bad ? "text-danger" : ""}`}>
                  <b className="font-semibold">{rows[row]?.value}</b>
                  {name === "Store operations" && (
                    <span className="block text-2xs text-muted">{rows[row]?.note}</span>
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
