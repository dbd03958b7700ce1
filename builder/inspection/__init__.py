"""Looks at what somebody names - an image, a record, a lock, a revision - and says what it is made of."""
