/** Charts of the last minutes, one value a second. */

import type { Series } from "leasehold/internal/wire";
import { Badge } from "leasehold-ui";
import { Chart, type Series as Line } from "../../ui/chart.js";
import { Panel } from "../../ui/panel.js";

interface Drawn {
  readonly title: string;
  readonly unit: string;
  readonly lines: readonly Line[];
  /** The values cover the whole store; by default those of this instance. */
  readonly isOfStore?: true;
}

export function Charts({ series }: { readonly series: Series }) {
  // Leave out the current second: it is incomplete and would look like a drop.
  const whole = Math.max(0, series.seconds - 1);
  const fromS = Date.parse(series.from) / 1_000;
  const seconds = Array.from({ length: whole }, (_, index) => fromS + index);
  return (
    <div className="grid gap-5 grid-cols-[minmax(0,1fr)] md:grid-cols-2 xl:grid-cols-3">
      {drawn(series, whole).map(({ title, unit, lines, isOfStore }) => (
        <Panel
          key={title}
          title={title}
          aside={<Badge>{isOfStore ? "whole store" : "this instance"}</Badge>}
        >
          <div className="px-2 pt-2 pb-3">
            <Chart
              {...{ seconds, unit, series: lines }}
              label={`${title}: ${spoken(lines, unit)}`}
            />
          </div>
        </Panel>
      ))}
    </div>
  );
}

function drawn({ leases, tasks, store }: Series, whole: number): readonly Drawn[] {
  const line = (name: string, colour: string, values: readonly (number | null)[]): Line => ({
    name,
    colour,
    values: values.slice(0, whole),
  });
  const { lost } = leases;
  const allLost = lost.expired.map((count, index) =>
    [count, lost.revoked[index], lost.taken[index], lost.gone[index]].reduce<number>(
      (sum, each) => sum + (each ?? 0),
      0,
    ),
  );
  return [
    {
      title: "Grants per second",
      unit: "/s",
      lines: [
        line("acquired", "--accent", leases.acquired),
        line("released", "--muted", leases.released),
        line("contended", "--warn", leases.contended),
      ],
    },
    {
      title: "Renewals per second",
      unit: "/s",
      lines: [line("renewed", "--accent", leases.renewed)],
    },
    {
      title: "Losses per second",
      unit: "/s",
      lines: [
        line("renewals refused", "--danger", allLost),
        line("taken over after expiry", "--warn", leases.reclaimed),
        line("revoked", "--muted", leases.revoked),
      ],
    },
    {
      title: "Tasks per second",
      unit: "/s",
      lines: [
        line("added", "--muted", tasks.enqueued),
        line("claimed", "--warn", tasks.claimed),
        line("completed", "--ok", tasks.completed),
        line("failed", "--danger", tasks.failed),
      ],
    },
    {
      title: "Queue depth",
      unit: "",
      isOfStore: true,
      lines: [
        line("pending", "--warn", carryForward(tasks.pending)),
        line("running", "--accent", carryForward(tasks.running)),
      ],
    },
    {
      title: "Store latency",
      unit: " ms",
      lines: [line("p50", "--accent", store.p50Ms), line("p99", "--warn", store.p99Ms)],
    },
  ];
}

/** The server counts the store less than once a second. Repeat the last value until the next count. */
function carryForward(values: readonly (number | null)[]): (number | null)[] {
  let last: number | null = null;
  return values.map((value) => (last = value ?? last));
}

function spoken(lines: readonly Line[], unit: string): string {
  return lines
    .map(({ name, values }) => {
      const known = values.filter((value) => value !== null);
      return known.length > 0 ? `${name} at most ${Math.max(...known)}${unit}` : `${name} unknown`;
    })
    .join(", ");
}
