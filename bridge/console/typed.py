"""What people type, as it may be kept and shown. Pure."""

from __future__ import annotations

import re
import unicodedata

# Control characters, bidirectional marks that turn the text behind them round, blanks of no width, halves of characters, unassigned ones.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn"}
_JOINERS = "\u200c\u200d"  # unseen too, but parts of letters in Persian and Hindi, and of emoji
_CONTACT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# https://app.gohighlevel.com/v2/location/<location>/contacts/detail/<contact>, at the agency's own host as well
_CONTACT_PAGE = re.compile(r"/location/([^/?#\s]+)/(?:contacts|customers)/detail/([A-Za-z0-9_-]{1,64})(?:[/?#]\S*)?")


def legible(text: str) -> str:
    """On one line and without what nobody sees: a text that looks empty is empty, and none changes how the text beside it reads."""
    blanks_alike = " ".join(text.split())
    seen = "".join(char for char in blanks_alike if unicodedata.category(char) not in _UNSEEN or char in _JOINERS)
    return " ".join(seen.split()).strip(f" {_JOINERS}")  # what stood between two blanks may have gone


def digits(text: str) -> str:
    """With digits of every script as 0 to 9."""
    return "".join(str(unicodedata.decimal(char, char)) for char in text)


def contact_id(text: str, location_id: str) -> str:
    """The id of a contact, of which the address of its page may be given too. Raises ValueError with what to do instead."""
    word = legible(text)
    page = _CONTACT_PAGE.search(word)
    if page and page[1] != location_id:
        raise ValueError(f"This is a contact of the location {page[1][:64]}; the bridge works for {location_id}.")
    if page:
        return page[2]
    if not _CONTACT_ID.fullmatch(word):
        raise ValueError("This is no contact id: copy it from the contact's address in GoHighLevel, or paste the whole address.")
    return word
