/**
 * The remaining time of a lease, as a bar that drains. Each bar is one browser animation that starts when
 * the response arrives, so that ten thousand bars run no script.
 */
import { tokenStyle } from "leasehold-ui";
import { useEffect, useRef } from "react";

interface Props {
  readonly token: number | null;
  /** From the server's response. */
  readonly remainingMs: number;
  readonly ttlMs: number;
  /** When the response arrived: `dataUpdatedAt` of the query. */
  readonly answeredAtMs: number;
}

export function ExpiryBar({ token, remainingMs, ttlMs, answeredAtMs }: Props) {
  const bar = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const leftMs = Math.max(0, remainingMs - (Date.now() - answeredAtMs));
    const animation = bar.current?.animate(
      [{ transform: `scaleX(${Math.min(1, leftMs / ttlMs)})` }, { transform: "scaleX(0)" }],
      { duration: Math.max(1, leftMs), fill: "forwards", easing: "linear" },
    );
    return () => animation?.cancel();
  }, [remainingMs, ttlMs, answeredAtMs]);
  return (
    <div
      aria-hidden="true"
      style={token === null ? undefined : tokenStyle(token)}
      className="h-1.5 w-full overflow-hidden rounded-full bg-sunken"
    >
      <div ref={bar} className="token-fill h-full origin-left rounded-full" />
    </div>
  );
}
