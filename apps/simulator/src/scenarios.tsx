/** The choice of the scenario. */
import { classNames } from "leasehold-ui";
import { useEffect, useRef } from "react";
import { SCENARIOS, type ScenarioId } from "./playground/index.js";
import { useCalmView } from "./use-player.js";

/** @param wrap shows all scenarios at any width, smaller and in several rows */
export function Scenarios({
  choose,
  wrap = false,
}: {
  readonly choose: (id: ScenarioId) => void;
  readonly wrap?: boolean;
}) {
  const chosen = useCalmView().playground.script.scenario;
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    const current = bar.current?.querySelector<HTMLElement>("[aria-current]");
    if (!bar.current || !current) return;
    bar.current.scrollLeft =
      current.offsetLeft - (bar.current.clientWidth - current.offsetWidth) / 2;
  }, [chosen]);
  return (
    <nav
      ref={bar}
      aria-label="Scenarios"
      className={wrap ? "" : "relative -mx-4 overflow-x-auto px-4 pb-1 sm:mx-0 sm:px-0"}
    >
      <ul className={classNames("flex", wrap ? "flex-wrap gap-1" : "gap-1.5 lg:flex-wrap")}>
        {SCENARIOS.map(({ id, title, summary }, index) => (
          <li key={id}>
            <button
              type="button"
              aria-current={chosen === id ? "true" : undefined}
              title={summary}
              onClick={() => choose(id)}
              className={classNames(
                "flex items-center gap-2 rounded-lg border whitespace-nowrap transition-colors",
                wrap ? "px-2 py-1 text-xs" : "px-2.5 py-1.5 text-sm",
                chosen === id
                  ? "border-accent bg-accent text-accent-ink"
                  : "bg-surface hover:border-line-strong",
              )}
            >
              <kbd
                aria-hidden="true"
                className={classNames(
                  "font-mono text-2xs max-lg:hidden",
                  chosen === id ? "opacity-80" : "text-muted",
                )}
              >
                {index + 1}
              </kbd>
              {title}
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}
