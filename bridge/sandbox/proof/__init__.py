"""The proof that no call is lost and no lead doubled: every crash point one by one (`crash`), and all faults at once (`storm`)."""
