/** The icons, drawn on a 16 × 16 grid with strokes of 1.5. */
const PATHS = {
  overview: "M2.5 13.5h11M4 11V8m4 3V3m4 8V6",
  lease: "M4.5 7V5a3.5 3.5 0 0 1 7 0v2M3 7h10v6.5H3zM8 9.5v1.5",
  task: "M2.5 3.5h2m2.5 0h6.5M2.5 8h2M7 8h6.5m-11 4.5h2m2.5 0h6.5",
  once: "M8 8m-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0M6.5 6.25 8 5v6M6.25 11h3.5",
  election: "M2.5 12.5h11M3 10.5 2.5 5l3 2.5L8 3l2.5 4.5 3-2.5-.5 5.5z",
  events: "M2 8h2.5L6 4l3.5 8L11 8h3",
  audit: "M4 2.5h6l2.5 2.5v8.5h-8.5zM6 7.5h4.5M6 10h4.5",
  simulator: "M8 8m-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0M7 5.5v5l3.5-2.5z",
  search: "M7 7m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0M10.5 10.5 14 14",
  sun: "M8 8m-2.75 0a2.75 2.75 0 1 0 5.5 0a2.75 2.75 0 1 0-5.5 0M8 1.5v1.25m0 10.5v1.25M1.5 8h1.25m10.5 0h1.25M3.4 3.4l.9.9m7.4 7.4.9.9m0-9.2-.9.9m-7.4 7.4-.9.9",
  moon: "M13 9.5A5.5 5.5 0 1 1 6.5 3a4.5 4.5 0 0 0 6.5 6.5",
  schedule: "M2.5 3.5h11v10h-11zM2.5 6.5h11M5.5 2v3m5-3v3M8 8.5V10l1.5 1",
  clock: "M8 8m-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0M8 5v3l2 1.5",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5 6.5 12 13 4.5",
  close: "M4 4l8 8m0-8-8 8",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  play: "M5 3.5v9l7-4.5z",
  pause: "M5.5 3.5v9m5-9v9",
  step: "M4 3.5v9l6-4.5zM12 3.5v9",
  stepBack: "M12 3.5v9L6 8zM4 3.5v9",
  back: "M13.5 3.5v9L8.5 8zM8 3.5v9L3 8z",
  restart: "M3.5 8A4.5 4.5 0 1 0 5 4.65M3.5 2.5v3h3",
  key: "M10.5 5.5m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0M8.3 7.7 2.5 13.5v-2m2 0 1.5 1.5",
  keyboard: "M1.5 4h13v8.5h-13zM4 6.75h.01M6.65 6.75h.01M9.3 6.75h.01M12 6.75h.01M4.75 9.75h6.5",
  code: "M5.5 4.5 2 8l3.5 3.5m5-7L14 8l-3.5 3.5",
  menu: "M2.5 4.5h11M2.5 8h11m-11 3.5h11",
  chevronRight: "M6 3.5 10.5 8 6 12.5",
  chevronDown: "M3.5 6 8 10.5 12.5 6",
  external: "M9 2.5h4.5V7M13 3 7.5 8.5M11.5 9v4.5h-9v-9H7",
  warning: "M8 2.5 14.5 13.5h-13zM8 6.5v3m0 2v.01",
  shield: "M8 2 13 4v4c0 3-2 5-5 6.5C5 13 3 11 3 8V4z",
  worker:
    "M3 3h10v10H3zM6 6h4v4H6zM6 1.5V3m4-1.5V3M6 13v1.5m4-1.5v1.5M1.5 6H3m-1.5 4H3m10-4h1.5M13 10h1.5",
  plus: "M8 3v10M3 8h10",
  trash: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.5 9h6l.5-9M7 7v4m2-4v4",
  filter: "M2.5 3.5h11L9.5 8.5v4l-3 1.5V8.5z",
  link: "M6.5 9.5 9.5 6.5M7 5l1.5-1.5a2.8 2.8 0 0 1 4 4L11 9M9 11l-1.5 1.5a2.8 2.8 0 0 1-4-4L5 7",
} as const;

export type IconName = keyof typeof PATHS;

/** Decorative: the text beside an icon, or the name of its button, carries the meaning. */
export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      aria-hidden="true"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={name === "more" ? 2.5 : 1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
      className="shrink-0"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
