"""Text: streams, labelled sentences, tagged words, translations and summaries."""
