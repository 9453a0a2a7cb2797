import { useRef } from "react";
import { usePlayer } from "./use-player.js";

/** Pauses the playback while a menu is open, so that the action happens at the moment that the user saw. */
export function usePausedMenu(): (open: boolean) => void {
  const player = usePlayer();
  const wasPlaying = useRef(false);
  return (open) => {
    if (open) {
      wasPlaying.current = player.view().playing;
      player.pause();
    } else if (wasPlaying.current) player.play();
  };
}
