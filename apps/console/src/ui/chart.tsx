/** A small live chart (uPlot) in the colours of the theme, with its latest values as text. */
import { useTheme } from "leasehold-ui";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { localText, useTimes, utcText } from "./time.js";

export interface Series {
  readonly name: string;
  /** A variable of styles.css, like `--accent`. */
  readonly colour: string;
  readonly values: readonly (number | null)[];
}

interface Props {
  /** Seconds since 1970, one per value. */
  readonly seconds: readonly number[];
  readonly series: readonly Series[];
  readonly unit: string;
  /** For screen readers. */
  readonly label: string;
  readonly height?: number;
}

const resolved = (variable: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

export function Chart({ seconds, series, unit, label, height = 120 }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { dark } = useTheme();
  const textOf = useTimes().style === "utc" ? utcText : localText;
  const shape = series.map(({ name, colour }) => `${name} ${colour}`).join();

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const axis = {
      stroke: resolved("--muted"),
      font: '11px "Inter", sans-serif',
      grid: { stroke: resolved("--line"), width: 1 },
      ticks: { show: false },
    };
    const made = new uPlot(
      {
        width: element.clientWidth,
        height,
        legend: { show: false },
        cursor: { points: { size: 6 }, y: false },
        padding: [8, 4, 0, 0],
        scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
        axes: [
          {
            ...axis,
            space: 70,
            size: 22,
            values: (_, splits) => splits.map((at) => timeOf(textOf(new Date(at * 1_000)))),
          },
          { ...axis, size: 44, space: 28 },
        ],
        series: [
          {},
          ...series.map(({ name, colour }) => ({
            label: name,
            stroke: resolved(colour),
            width: 1.5,
            points: { show: false },
            spanGaps: false,
          })),
        ],
      },
      dataOf(seconds, series),
      element,
    );
    plot.current = made;
    const sized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    sized.observe(element);
    return () => {
      sized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, height, dark, textOf]);

  useEffect(() => {
    plot.current?.setData(dataOf(seconds, series));
  }, [seconds, series]);

  return (
    <figure className="min-w-0">
      <div
        ref={host}
        role="img"
        aria-label={label}
        className="w-full overflow-hidden"
        style={{ height }}
      />
      <figcaption className="flex flex-wrap gap-x-4 gap-y-1 px-2 pt-1 text-xs text-muted">
        {series.map(({ name, colour, values }) => (
          <span key={name} className="inline-flex items-center gap-1.5">
            <span className="h-0.5 w-3" style={{ background: `var(${colour})` }} />
            {name} <span className="text-ink tabular">{lastOf(values, unit)}</span>
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

const dataOf = (seconds: readonly number[], series: readonly Series[]): uPlot.AlignedData =>
  [[...seconds], ...series.map(({ values }) => [...values])] as uPlot.AlignedData;

/** The time of day, out of a date and time. */
const timeOf = (text: string) => text.slice(11, 19);

function lastOf(values: readonly (number | null)[], unit: string): string {
  const last = values.findLast((value) => value !== null);
  if (last === undefined || last === null) return "–";
  return `${last >= 100 ? Math.round(last) : Number(last.toPrecision(3))}${unit}`;
}
