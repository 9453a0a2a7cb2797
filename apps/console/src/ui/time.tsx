/** Times in the format that the reader has chosen: relative, local or UTC. */

import { durationText } from "leasehold-ui";
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";

export const TIME_STYLES = ["relative", "local", "utc"] as const;
export type TimeStyle = (typeof TIME_STYLES)[number];

const STORED = "leasehold.times";

interface Times {
  readonly style: TimeStyle;
  readonly choose: (style: TimeStyle) => void;
}
const TimesContext = createContext<Times>({ style: "relative", choose: () => {} });

export function TimesProvider({ children }: { readonly children: ReactNode }) {
  const [style, setStyle] = useState<TimeStyle>(
    () => TIME_STYLES.find((known) => known === localStorage.getItem(STORED)) ?? "relative",
  );
  const choose = (next: TimeStyle) => {
    localStorage.setItem(STORED, next);
    setStyle(next);
  };
  return <TimesContext value={{ style, choose }}>{children}</TimesContext>;
}

export const useTimes = (): Times => useContext(TimesContext);

const pad = (value: number, digits = 2) => String(value).padStart(digits, "0");

export function utcText(date: Date): string {
  return date
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, "Z");
}
export function localText(date: Date): string {
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

function relativeText(date: Date, nowMs: number): string {
  const ms = date.getTime() - nowMs;
  // Tenths would be noise in a text that changes every second.
  const seconds = Math.floor(Math.abs(ms) / 1_000);
  if (seconds === 0) return "now";
  const text = seconds < 10 ? `${seconds} s` : durationText(seconds * 1_000);
  return ms < 0 ? `${text} ago` : `in ${text}`;
}

/** One timer for all relative times. It does nothing while the page is hidden. */
const tickers = new Set<() => void>();
let ticking: ReturnType<typeof setInterval> | undefined;
export function useNow(everyMs = 1_000): number {
  const [nowMs, setNowMs] = useState(() => Date.now());
  useEffect(() => {
    let last = 0;
    const tick = () => {
      const ms = Date.now();
      if (ms - last < everyMs - 50) return;
      last = ms;
      setNowMs(ms);
    };
    tickers.add(tick);
    ticking ??= setInterval(() => {
      if (!document.hidden) for (const each of tickers) each();
    }, 250);
    return () => {
      tickers.delete(tick);
      if (tickers.size > 0) return;
      clearInterval(ticking);
      ticking = undefined;
    };
  }, [everyMs]);
  return nowMs;
}

/** A point in time; its tooltip shows the UTC and the local time. */
export function TimeText({ at }: { readonly at: string | number | Date | null | undefined }) {
  if (at === null || at === undefined) return <span className="text-muted">–</span>;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <span>{String(at)}</span>;
  return <KnownTime date={date} />;
}

function KnownTime({ date }: { readonly date: Date }) {
  const { style } = useTimes();
  const text = style === "utc" ? utcText(date) : localText(date);
  return (
    <time
      dateTime={date.toISOString()}
      title={`${utcText(date)}\n${localText(date)} local`}
      className="tabular whitespace-nowrap"
    >
      {style === "relative" ? <Relative date={date} /> : text}
    </time>
  );
}

function Relative({ date }: { readonly date: Date }) {
  return relativeText(date, useNow());
}
