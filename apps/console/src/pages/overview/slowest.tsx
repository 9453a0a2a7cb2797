/** The slowest operations of the store. */

import type { Latency } from "leasehold/internal/wire";
import { Badge } from "leasehold-ui";
import { Panel } from "../../ui/panel.js";

const SHOWN = 8;
const text = (ms: number) => (ms < 10 ? ms.toFixed(1) : String(Math.round(ms)));

export function Slowest({ latency }: { readonly latency: readonly Latency[] }) {
  const slowest = latency.toSorted((a, b) => b.p99Ms - a.p99Ms).slice(0, SHOWN);
  return (
    <Panel title="Slowest store calls, last minute" aside={<Badge>this instance</Badge>}>
      {slowest.length === 0 ? (
        <p className="px-4 py-3 text-sm text-muted">No calls in the last minute.</p>
      ) : (
        <table className="w-full text-sm">
          <thead>
            <tr className="text-left text-xs text-muted">
              <th className="px-4 py-2 font-medium">Operation</th>
              <th className="px-2 py-2 text-right font-medium">Calls</th>
              <th className="px-2 py-2 text-right font-medium">p50, ms</th>
              <th className="py-2 pr-4 pl-2 text-right font-medium">p99, ms</th>
            </tr>
          </thead>
          <tbody className="tabular">
            {slowest.map(({ store, operation, calls, p50Ms, p99Ms }) => (
              <tr key={`${store} ${operation}`} className="border-t">
                <td className="px-4 py-1.5">
                  {store}.{operation}
                </td>
                <td className="px-2 py-1.5 text-right">{calls.toLocaleString("en")}</td>
                <td className="px-2 py-1.5 text-right">{text(p50Ms)}</td>
                <td className="py-1.5 pr-4 pl-2 text-right">{text(p99Ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
