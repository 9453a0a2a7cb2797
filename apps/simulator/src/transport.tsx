/** The playback controls: play, pause, step and speed. */
import { Button, Icon, IconButton } from "leasehold-ui";
import { SPEEDS } from "./player.js";
import { Timeline } from "./timeline.js";
import { useCalmView, usePlayer, useView } from "./use-player.js";

export function Transport() {
  const player = usePlayer();
  const { playing, speed, slowsForMessages, playground } = useCalmView();
  return (
    <section aria-label="Playback" className="grid gap-2 border-t px-3 py-3 sm:px-5">
      <Timeline />
      <div className="flex flex-wrap items-center gap-x-1.5 gap-y-2">
        <IconButton label="Back to the start" onClick={() => void player.seek(0)}>
          <Icon name="back" />
        </IconButton>
        <IconButton label="Previous step" onClick={() => void player.stepBack()}>
          <Icon name="stepBack" />
        </IconButton>
        <Button look="primary" className="w-24" onClick={player.toggle}>
          <Icon name={playing ? "pause" : "play"} />
          {playing ? "Pause" : "Play"}
        </Button>
        <IconButton label="Next step" onClick={() => void player.stepOn()}>
          <Icon name="step" />
        </IconButton>
        <Clock />
        <span className="ml-auto flex items-center gap-3">
          <label className="flex items-center gap-1.5 text-xs text-muted">
            <input
              type="checkbox"
              className="accent-accent"
              checked={slowsForMessages}
              onChange={({ target }) => player.slowForMessages(target.checked)}
            />
            slow motion for messages
          </label>
          <select
            aria-label="Speed"
            className="h-8 rounded-md border bg-surface px-1.5 text-xs tabular hover:border-line-strong"
            value={speed}
            onChange={({ target }) => player.setSpeed(Number(target.value))}
          >
            {SPEEDS.map((each) => (
              <option key={each} value={each}>
                {each}×
              </option>
            ))}
          </select>
          {playground.script.actions.length > 0 && (
            <Button small look="quiet" onClick={() => player.startOver()}>
              <Icon name="restart" size={14} /> Undo my actions
            </Button>
          )}
        </span>
      </div>
    </section>
  );
}

function Clock() {
  const { frame, playground } = useView();
  const back = frame.atMs < playground.reachedMs;
  return (
    <span className="ml-2 flex items-baseline gap-2">
      <span className="font-mono text-sm tabular">{(frame.atMs / 1_000).toFixed(2)} s</span>
      {back && (
        <span className="text-xs text-warn max-sm:hidden">
          in the past: an action here starts a new branch
        </span>
      )}
    </span>
  );
}
